-- The role that has called a function which runs with the privileges of the owner, if it may append,
-- and if the write from Spark, where there is one of that id, is its own or of a role of which it is
-- a member. There, current_user is the owner.
create or replace function {schema}.appending_role(query uuid) returns name
language plpgsql stable as $$
declare
  caller constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
  other name;
begin
  if not has_column_privilege(caller, '{schema}.messages', 'data', 'insert') then
    raise exception 'permission denied for table messages' using errcode = 'insufficient_privilege';
  end if;
  select w.role into other
  from {schema}.spark_writes as w
  join pg_roles as r on r.rolname = w.role
  where w.query = appending_role.query and not pg_has_role(caller, r.oid, 'usage');
  if found then
    raise exception 'the write % from Spark is of role %, of which role % is not a member',
      appending_role.query, other, caller
      using errcode = 'object_not_in_prerequisite_state',  -- no grant of ours would help
        hint = 'Nothing was written. Continue it as that role, or as a member of it.';
  end if;
  return caller;
end;
$$;
