-- Make a log that was restored from another cluster, or has seen a failover, this cluster's own:
-- raise the base so that every transaction still to append here sorts above every message that is
-- there, and above every position that a reader may have reached in the old cluster. That one is not
-- in the dump, but the old cluster cannot have used up 2^40 transaction ids since its newest message.
-- Positions and checkpoints keep their values. Answers with what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  newest bigint;
  base bigint;
  kept {schema}.position;
begin
  -- Nobody appends meanwhile.
  lock table {schema}.messages in share row exclusive mode;
  if not ({schema}.is_foreign() or {schema}.is_other_timeline()) then
    return 'nothing: the log belongs to this cluster';
  end if;
  select coalesce(max(transaction_id), 0) into newest from {schema}.messages;
  base := greatest({schema}.transaction_base(), newest) + (1::bigint << 40);
  execute format(
    'create or replace function {schema}.transaction_base() returns bigint '
    'language sql immutable parallel safe return %s::bigint',
    base
  );
  update {schema}.log
  set system_identifier = control.system_identifier, timeline = {schema}.current_timeline()
  from pg_control_system() as control;
  kept := {schema}.note_lost(row(base, 0)::{schema}.position);
  return format(
    'transaction ids of this cluster now count from %s; if messages after %s:%s were seen anywhere, they are lost',
    base, (kept).transaction_id, (kept).position
  );
end;
$$;
