select transaction_id, "position"
from {schema}.appended_since(
  row(%(transaction_id)s, %(position)s)::{schema}.position, %(ids)s::uuid[]
)
