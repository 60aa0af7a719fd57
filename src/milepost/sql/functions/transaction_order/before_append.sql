-- Once per transaction: refuse to append if transaction ids are from elsewhere, and wake the readers. The
-- marker contains the transaction's own id, so that a setting that was left over or set by a user
-- never matches; a rolled back savepoint resets it. Once per session: refuse to append after a
-- restore or a failover, which no session survives. SECURITY DEFINER: a role that may insert needs no privilege
-- to read the log.
create or replace function {schema}.before_append() returns trigger
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  marker constant text := 'milepost.appending_' || tg_relid;
  own_id constant text := pg_current_xact_id();
  checked constant text := 'milepost.checked_' || tg_relid;
begin
  if current_setting(marker, true) = own_id then
    return null;
  end if;
  perform {schema}.refuse_foreign_cluster();
  if current_setting(checked, true) is distinct from 'yes' then
    perform {schema}.refuse_moved();
    perform set_config(
      checked, case when {schema}.adopt_log() then 'yes' else 'read' end, false
    );
  end if;
  perform set_config(marker, own_id, true);
  -- A message that is visible must be durable (see last_message).
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'local', true);
  end if;
  if current_setting('milepost.notify', true) is distinct from 'off' then
    perform pg_notify({channel}, '');
  end if;
  return null;
end;
$$;
