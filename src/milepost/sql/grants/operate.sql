-- operate: pause, resume, skip, reset, split and merge, dead letters, jobs, channels, schedules, and
-- `doctor --repair`. To run a schedule now is to put a job, which needs `put` too. The role sees messages and jobs. It can change what happens to them, but not
-- their content.
grant select on
  {schema}.dead_letters, {schema}.parked_keys, {schema}.segment_floors, {schema}.jobs,
  {schema}.retention
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
    run_at, locked_until, finished_at, kept_until, failures, status, is_cancelled, last_error,
    crashes, has_followers, unique_for
  ),
  delete
  on {schema}.jobs to {role};
grant insert, update on {schema}.channel_upkeep to {role};
grant select, insert, update, delete on {schema}.job_dependencies, {schema}.job_endings to {role};
-- On the whole table, not on columns: a change of limits locks the table.
grant insert, update, delete on {schema}.channels to {role};
grant select, insert, update on {schema}.channel_upkeep to {role};
grant select, update (is_paused, next_at), delete on {schema}.schedules to {role};
grant select, update on sequence
  {schema}.jobs_id_seq, {schema}.jobs_taken_seq, {schema}.jobs_promote_at, {schema}.jobs_recover_at
  to {role};
-- What was done in the dashboard: added and read, never changed or deleted.
grant select, insert (who, action, subject, arguments) on {schema}.audit to {role};
