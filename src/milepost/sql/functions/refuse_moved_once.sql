-- The same for readers, once per session: no session survives a restore or a failover, but one of a
-- standby survives its promotion. Whether there is a place at all is an appender's question
-- (adopt_log), so the mark is another one.
create or replace function {schema}.refuse_moved_once() returns void
language plpgsql volatile as $$
declare
  marker constant text := 'milepost.checked_' || '{schema}.messages'::regclass::oid;
begin
  if current_setting(marker, true) in ('yes', 'read') then
    return;
  end if;
  perform {schema}.refuse_moved();
  if not pg_is_in_recovery() then
    perform set_config(marker, 'read', false);
  end if;
end;
$$;
