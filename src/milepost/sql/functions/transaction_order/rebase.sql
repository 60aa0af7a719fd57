-- Make a log that was restored from another cluster this cluster's own: raise the base so that
-- every transaction still to append here sorts above every message that is there. Positions
-- and checkpoints keep their values. Answers with what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  newest bigint;
  oldest_running bigint;
  base bigint;
begin
  -- Nobody appends meanwhile; the snapshot below is taken with the lock held.
  lock table {schema}.messages in share row exclusive mode;
  select coalesce(max(transaction_id), 0) into newest from {schema}.messages;
  -- Not this transaction's id: one that began before may append after.
  oldest_running := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
  base := greatest({schema}.transaction_base(), newest + 1 - oldest_running);
  execute format(
    'create or replace function {schema}.transaction_base() returns bigint '
    'language sql immutable parallel safe return %s::bigint',
    base
  );
  update {schema}.log
  set system_identifier = control.system_identifier
  from pg_control_system() as control;
  return format('transaction ids of this cluster now count from %s', base);
end;
$$;
