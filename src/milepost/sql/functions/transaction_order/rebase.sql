-- Adopt a log that was restored or copied, or has seen a failover: raise the base so
-- that every later transaction here sorts above every existing message, archived and removed ones
-- too, and above every position that a reader may have reached in the old cluster. That position is
-- not in the dump, but the old cluster cannot have used 2^40 transaction ids since its newest
-- message. Positions and checkpoints keep their values. Returns what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  newest bigint;
  base bigint;
  kept {schema}.position;
begin
  -- Blocks appenders.
  lock table {schema}.messages in share row exclusive mode;
  if not ({schema}.is_foreign() or {schema}.moved_from() is not null or {schema}.is_unplaced()) then
    return 'nothing: the log belongs to this database';
  end if;
  select greatest(max(transaction_id), ({schema}.history_end()).transaction_id) into newest
  from {schema}.messages;
  base := greatest({schema}.transaction_base(), newest) + (1::bigint << 40);
  execute format(
    'create or replace function {schema}.transaction_base() returns bigint '
    'language sql immutable parallel safe return %s::bigint',
    base
  );
  perform {schema}.set_place();
  kept := {schema}.note_lost(row(base, 0)::{schema}.position);
  return format(
    'transaction ids of this cluster now count from %s; if messages after %s:%s were seen anywhere, they are lost',
    base, (kept).transaction_id, (kept).position
  );
end;
$$;
