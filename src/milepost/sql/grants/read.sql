-- read: the log, and the checkpoints of processors and pipelines (for wait_for, and for a Spark
-- read that starts from a checkpoint).
grant select on {schema}.messages to {role};
grant select on {schema}.lost_positions, {schema}.archive to {role};
grant select (processor, version, segment, transaction_id, "position", epoch, owner)
  on {schema}.checkpoints to {role};
grant select (processor, version, id, mask) on {schema}.segments to {role};
grant select (name, version, code_version, is_active, built_at) on {schema}.pipelines to {role};
