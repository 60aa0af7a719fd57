-- Where this log is: the server's identifier and timeline (null on a standby), the database and the
-- table. A copy of a database has the same table oid, and a restore into the same database has the
-- same database oid.
create or replace function {schema}.log_place(
  out system_identifier bigint, out timeline integer, out database_oid oid, out table_oid oid
)
language sql volatile as $$
  select
    control.system_identifier,
    {schema}.current_timeline(),
    database.oid,
    '{schema}.messages'::regclass::oid
  from pg_control_system() as control, pg_database as database
  where database.datname = current_database()
$$;
