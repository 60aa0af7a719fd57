-- Whether this server was promoted, or recovered to a point in time, since the log was last
-- adopted. The newest messages may be lost then, and their positions would be given to other
-- messages. The control file, which takes as long as all the rest, is read only if the timelines
-- differ.
create or replace function {schema}.is_other_timeline() returns boolean
language sql volatile
return (
  select case
    when log.timeline = {schema}.current_timeline() or pg_is_in_recovery() then false
    else log.system_identifier = (select system_identifier from pg_control_system())
  end
  from {schema}.log as log
);
