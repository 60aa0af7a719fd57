-- The role that has called a function which runs with the privileges of the owner, if it may append.
-- There, current_user is the owner.
create or replace function {schema}.appending_role() returns name
language plpgsql stable as $$
declare
  caller constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
  if not has_column_privilege(caller, '{schema}.messages', 'data', 'insert') then
    raise exception 'permission denied for table messages' using errcode = 'insufficient_privilege';
  end if;
  return caller;
end;
$$;
