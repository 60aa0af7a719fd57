-- This is where the log is from now on.
create or replace function {schema}.set_place() returns void
language sql volatile as $$
  update {schema}.log
  set (system_identifier, timeline, database_oid, table_oid) = (select * from {schema}.log_place())
$$;
