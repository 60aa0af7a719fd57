-- process: run processors, on one machine or with engine="spark". Only what a processor writes:
-- not is_paused, which operators set; not mask, because operators split and merge segments; not
-- replays, because operators reset.
grant select on
  {schema}.checkpoints, {schema}.processors, {schema}.segments, {schema}.segment_floors,
  {schema}.instances, {schema}.replays, {schema}.dead_letters, {schema}.parked_keys
  to {role};
grant insert, update (transaction_id, "position", epoch, owner, updated_at)
  on {schema}.checkpoints to {role};
grant
  insert (name, version, topics, types, state, owner, mode, has_reset_handlers),
  update (
    topics, types, state, owner, mode, has_reset_handlers, handled, rate, last_error, last_error_at,
    reported_at, segments
  )
  on {schema}.processors to {role};
grant
  insert (processor, version, id, mask, epoch),
  update (
    epoch, owner, claimed_until, wanted_by, wanted_until, last_error, last_error_at, handled_epoch,
    handled_transaction_id, handled_position
  )
  on {schema}.segments to {role};
grant insert, update (alive_until, rate, at_most), delete on {schema}.instances to {role};
grant delete on {schema}.segment_floors to {role};
grant
  insert (
    processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
    recorded_at, error, traceback, attempts, is_parked, parked_id, is_replayed
  ),
  update (
    error, traceback, attempts, failed_at, retry_requested_at, is_parked, parked_id, is_replayed
  ),
  delete
  on {schema}.dead_letters to {role};
grant
  insert (processor, version, digest, key, retry_requested_at), update (retry_requested_at), delete
  on {schema}.parked_keys to {role};
