-- Adopt a log that was dumped from another cluster when the first message is appended here: in this
-- order the log can be used without rebase(), and from now on a failover of this cluster must be
-- detected. A session that finds the row locked leaves it to the other.
create or replace function {schema}.adopt_log() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  perform
  from {schema}.log as log, pg_control_system() as control
  where log.system_identifier <> control.system_identifier
  for no key update of log skip locked;
  if found then
    update {schema}.log
    set system_identifier = control.system_identifier, timeline = {schema}.current_timeline()
    from pg_control_system() as control;
  end if;
end;
$$;
