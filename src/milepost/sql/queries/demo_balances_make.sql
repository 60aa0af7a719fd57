create table {schema}.balances (
  account text primary key,
  amount bigint not null
)
