select
  pid,
  prepared,
  application,
  username,
  database,
  state,
  extract(epoch from age)::float8 as age_seconds,
  query,
  remedy
from {schema}.horizon_holders()
