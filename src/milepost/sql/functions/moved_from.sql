-- How the log came here since it was last adopted, null if it did not: it was restored or copied, or
-- the server was promoted or recovered to a point in time. The newest messages may be missing then, and
-- their positions would be given to others. What is null in the log is unknown, and not compared.
create or replace function {schema}.moved_from() returns text
language sql volatile as $$
  select case
    when log.system_identifier <> here.system_identifier
    then 'was restored from another cluster'
    when (log.database_oid, log.table_oid) <> (here.database_oid, here.table_oid)
    then 'was restored from a dump or copied with its database'
    when log.timeline <> here.timeline
    then format(
      'is on a server that was promoted or recovered to a point in time (timeline %s)', here.timeline
    )
  end
  from {schema}.log as log, {schema}.log_place() as here
$$;
