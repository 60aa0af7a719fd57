select expectation, violated, example
from {schema}.sift_staged(
  %(pipeline)s, %(version)s, %(staging)s, %(attempts)s, %(total)s, %(expectations)s, %(on_violation)s,
  %(rejected)s::regclass, %(columns)s, %(types)s, %(key_columns)s,
  row(%(after_transaction_id)s, %(after_position)s)::{schema}.position,
  row(%(last_transaction_id)s, %(last_position)s)::{schema}.position
)
