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
-- Neither: the session ended between the look at its lock and that at itself.
where pid is not null or prepared is not null
