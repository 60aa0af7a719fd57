-- What the policy wants to be done all the time, and whether this role may do it; for every process that
-- runs anything, so a role without any privilege on the policy is not refused: there is nothing for it
-- to do.
create or replace function {schema}.retention_duties(
  out archives boolean, out may_archive boolean, out removes boolean, out may_remove boolean
)
language plpgsql volatile as $$
begin
  archives := false;
  removes := false;
  may_archive := has_table_privilege('{schema}.archive', 'insert')
    and has_any_column_privilege('{schema}.checkpoints', 'update');
  may_remove := has_table_privilege('{schema}.messages', 'delete');
  if has_table_privilege('{schema}.retention', 'select') then
    select coalesce(bool_or(r.archive is not null), false),
      coalesce(bool_or(r.keep is not null or r.keep_messages is not null), false)
    into archives, removes
    from {schema}.retention as r;
  end if;
end;
$$;
