-- Move a checkpoint from the expected position to a new one, in the caller's transaction. Returns:
--   1 stored   it was at the expected position, or there was none and none was expected (null)
--   0 ignored  it is already at the new position
--   2 further  it is ahead of the expected position: a competing instance, or an attempt to go back
--   3 older    it is behind the expected position: it was reset
--   4 fenced   the claim's epoch is no longer the current one
--   5 missing  there is no checkpoint, but one was expected
-- Only 1 has changed something; otherwise the caller rolls back its own effects.
--
-- Whole positions are compared. A store never goes back: only a reset does. It waits for the
-- uncommitted store of a competitor, but only for a limited time: the competitor's host may have
-- failed.
--
-- A null epoch is refused: it would compare as unknown, and no claim would be fenced. Positions are
-- never negative: a checkpoint below the beginning cannot exist.
create or replace function {schema}.store_checkpoint(
  processor text,
  version integer,
  segment integer,
  expected {schema}.position,
  new {schema}.position,
  epoch bigint default 0,
  owner text default null
) returns integer
language plpgsql volatile set lock_timeout = '10s' as $$
#variable_conflict use_column
declare
  current record;
begin
  if (store_checkpoint.new).transaction_id is null or (store_checkpoint.new).position is null then
    raise exception 'the new position of a checkpoint must not be null'
      using errcode = 'null_value_not_allowed';
  end if;
  if store_checkpoint.epoch is null then
    raise exception 'the epoch of a checkpoint must not be null'
      using errcode = 'null_value_not_allowed',
      hint = 'Pass the epoch of the claim, or 0 (the default) without a claim.';
  end if;
  if least(
    (store_checkpoint.new).transaction_id, (store_checkpoint.new).position,
    (store_checkpoint.expected).transaction_id, (store_checkpoint.expected).position
  ) < 0 then
    raise exception 'positions are not negative: expected %, new %',
      store_checkpoint.expected, store_checkpoint.new
      using errcode = 'invalid_parameter_value',
      hint = 'The beginning is (0,0). If there is no checkpoint yet, expect null.';
  end if;

  if (store_checkpoint.expected).position is null then
    insert into {schema}.checkpoints (
      processor, version, segment, transaction_id, "position", epoch, owner
    ) values (
      store_checkpoint.processor, store_checkpoint.version, store_checkpoint.segment,
      (store_checkpoint.new).transaction_id, (store_checkpoint.new).position,
      store_checkpoint.epoch, store_checkpoint.owner
    )
    on conflict do nothing;
    if found then
      -- Nobody starts where messages were removed that are not in the archive.
      return case when {schema}.refuse_unreachable(store_checkpoint.new) then 1 end;
    end if;
  else
    update {schema}.checkpoints as c
    set transaction_id = (store_checkpoint.new).transaction_id,
      "position" = (store_checkpoint.new).position,
      owner = store_checkpoint.owner,
      updated_at = clock_timestamp()
    where c.processor = store_checkpoint.processor
      and c.version = store_checkpoint.version
      and c.segment = store_checkpoint.segment
      and c.epoch = store_checkpoint.epoch
      and c.transaction_id = (store_checkpoint.expected).transaction_id
      and c."position" = (store_checkpoint.expected).position
      and (c.transaction_id, c."position")
        < ((store_checkpoint.new).transaction_id, (store_checkpoint.new).position);
  end if;
  if found then
    -- Whose transaction it is that keeps the row now, if its process is frozen: silent_sessions.sql.
    perform pg_try_advisory_xact_lock_shared({schema}.owner_key(store_checkpoint.owner));
    return 1;
  end if;

  select row(c.transaction_id, c."position")::{schema}.position as at, c.epoch
  into current
  from {schema}.checkpoints as c
  where c.processor = store_checkpoint.processor
    and c.version = store_checkpoint.version
    and c.segment = store_checkpoint.segment;
  return case
    when not found then 5
    when current.epoch <> store_checkpoint.epoch then 4
    when current.at = store_checkpoint.new then 0
    when (store_checkpoint.expected).position is null
      then case when current.at > store_checkpoint.new then 2 else 3 end
    when current.at < store_checkpoint.expected then 3
    else 2
  end;
end;
$$;
