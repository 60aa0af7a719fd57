-- pipeline: run, rebuild, roll back and drop pipelines. A pipeline creates its staging tables in
-- this schema. CREATE is a far-reaching privilege: a role that has it can also create functions
-- here that others call by mistake. Trust this role as you trust the owner. The owner of the
-- target's schema must grant:
--   grant usage, create on schema TARGET_SCHEMA to ROLE;
grant create on schema {schema} to {role};
grant select, insert, update, delete on {schema}.pipelines, {schema}.pipeline_expectations to {role};
-- Messages that it could not handle.
grant select,
  insert (
    processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
    recorded_at, error, traceback, attempts, is_replayed
  ),
  update (error, traceback, attempts, failed_at, retry_requested_at, is_replayed),
  delete
  on {schema}.dead_letters to {role};
grant select, insert, update (transaction_id, "position", epoch, owner, updated_at), delete
  on {schema}.checkpoints to {role};
-- Its lag is computed as that of a processor, which may have segments.
grant select (
  processor, version, id, mask, epoch, claimed_until, handled_epoch, handled_transaction_id,
  handled_position
) on {schema}.segments to {role};
-- Its rollback or drop in the dashboard is recorded.
grant select (id), insert (who, action, subject, arguments) on {schema}.audit to {role};
