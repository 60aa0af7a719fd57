-- For a worker that found nothing: in how many seconds a job may be there (null: none is known),
-- and whether a put is in flight that will not wake any worker.
select
  extract(epoch from {schema}.next_due() - clock_timestamp())::float8 as seconds,
  exists (
    select from pg_locks as l
    where l.locktype = 'advisory' and l.objsubid = 1
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint in (
        - '{schema}.jobs'::regclass::oid::bigint,
        - '{schema}.jobs'::regclass::oid::bigint - 4294967296
      )
  ) as is_put_in_flight
