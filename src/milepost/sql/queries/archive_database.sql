-- What tells this database from all others: also from one that was dropped and restored under the same
-- name, and from a copy of the cluster that was promoted.
select
  control.system_identifier,
  concat_ws(' ', database.oid, {schema}.current_timeline()) as database
from pg_control_system() as control, pg_database as database
where database.datname = current_database()
