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
-- Neither: the session ended between reading its lock and reading the session.
where pid is not null or prepared is not null
