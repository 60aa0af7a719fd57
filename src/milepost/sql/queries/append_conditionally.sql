select transaction_id, "position"
from {schema}.append_conditionally(
  %(ids)b::uuid[], %(topics)b::text[], %(keys)b::text[], %(types)b::text[],
  %(data)b::json[], %(metadata)b::json[], %(once)s::boolean, %(newer_key)s::text,
  case when %(newer_key)s::text is not null
    then row(%(newer_transaction_id)s::bigint, %(newer_position)s::bigint)::{schema}.position
  end,
  %(newer_types)s::text[]
)
