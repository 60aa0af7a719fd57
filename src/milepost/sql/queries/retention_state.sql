-- The policy, the last position that it allows to remove, as far as max_walked messages show it, and the
-- last one that is removed.
select
  retention.is_only is not null,
  retention.keep, retention.keep_messages, retention.archive, retention.archive_after,
  allowed.transaction_id, allowed."position",
  log.removed_transaction_id, log.removed_position
from {schema}.log
left join {schema}.retention on true
left join {schema}.retention_limit(%(max_walked)s) as allowed on true
