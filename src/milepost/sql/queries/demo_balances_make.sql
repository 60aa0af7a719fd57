create table {schema}.balances (
  customer text primary key,
  total bigint not null
)
