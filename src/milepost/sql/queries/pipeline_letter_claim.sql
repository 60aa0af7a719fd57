-- The guard of a retry. The checkpoint is locked, as by a range, so that no swap happens meanwhile:
-- its epoch must be the driver's. The session that deletes the letter writes its rows.
with held as materialized (
  select epoch
  from {schema}.checkpoints
  where processor = %(processor)s and version = %(version)s and segment = 0
  for no key update
), claimed as (
  delete from {schema}.dead_letters as d
  using held
  where d.id = %(id)s and d.retry_requested_at is not null and held.epoch = %(epoch)s
  returning d.id
)
select (select epoch from held), exists (select from claimed)
