-- Whether this server was promoted, or recovered to a point in time, since the log was its own. What
-- is newest may be lost then, and its positions would be given to other messages.
create or replace function {schema}.is_other_timeline() returns boolean
language sql volatile
return coalesce(
  (
    select log.timeline <> {schema}.current_timeline()
    from {schema}.log as log, pg_control_system() as control
    where log.system_identifier = control.system_identifier
  ),
  false
);
