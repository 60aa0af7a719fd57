select exists (
  select from {schema}.dead_letters
  where processor = %(processor)s
    and version = %(version)s
    and transaction_id = %(transaction_id)s
    and "position" = %(position)s
)
