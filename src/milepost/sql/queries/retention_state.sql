-- The policy, the last position that it allows to remove, and the last one that is removed.
select
  retention.keep, retention.keep_messages, allowed.transaction_id, allowed."position",
  log.removed_transaction_id, log.removed_position
from {schema}.log
left join {schema}.retention on true
left join {schema}.retention_limit() as allowed on true
