-- operate: pause, resume, skip, reset, split and merge, dead letters, jobs, channels, and
-- `doctor --repair`. It sees messages and jobs and changes what becomes of them, not what they say.
grant select on {schema}.dead_letters, {schema}.parked_keys, {schema}.segment_floors, {schema}.jobs
  to {role};
grant update (is_paused, segments) on {schema}.processors to {role};
grant update (is_paused) on {schema}.pipelines to {role};
grant insert, update (transaction_id, "position", epoch, owner, updated_at), delete
  on {schema}.checkpoints to {role};
grant
  insert (processor, version, id, mask, epoch),
  update (mask, epoch, owner, claimed_until, wanted_by, wanted_until),
  delete
  on {schema}.segments to {role};
grant insert, update (transaction_id, "position"), delete
  on {schema}.segment_floors, {schema}.replays to {role};
grant delete on {schema}.instances to {role};
grant
  insert (
    processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
    recorded_at, error, traceback, attempts, is_replayed
  ),
  update (error, traceback, attempts, failed_at, retry_requested_at, is_replayed),
  delete
  on {schema}.dead_letters to {role};
grant update (retry_requested_at), delete on {schema}.parked_keys to {role};
grant
  update (
    run_at, locked_until, finished_at, kept_until, failures, status, is_cancelled, last_error
  ),
  delete
  on {schema}.jobs to {role};
-- Of the whole table, not by columns: a change of limits locks it.
grant insert, update on {schema}.channels to {role};
grant select, update on sequence
  {schema}.jobs_id_seq, {schema}.jobs_taken_seq, {schema}.jobs_promote_at, {schema}.jobs_recover_at
  to {role};
