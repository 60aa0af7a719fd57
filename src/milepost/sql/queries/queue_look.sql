-- For a worker that found nothing: in how many seconds something may be there (null: nothing is
-- known to come), and whether a put is in flight that will not wake anybody.
select
  extract(epoch from least(
    (
      select j.run_at from {schema}.jobs as j
      where j.status = 'scheduled' order by j.run_at limit 1
    ),
    (
      select min(c.next_release_at) from {schema}.channels as c
      where c.release_interval is not null and not c.is_paused
        and c.next_release_at > clock_timestamp()
        and exists (
          select from {schema}.jobs as j where j.status = 'ready' and j.channel = c.name
        )
    )
  ) - clock_timestamp())::float8 as seconds,
  exists (
    select from pg_locks as l
    where l.locktype = 'advisory' and l.objsubid = 1
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
      and (l.classid::bigint << 32) | l.objid::bigint in (
        - '{schema}.jobs'::regclass::oid::bigint,
        - '{schema}.jobs'::regclass::oid::bigint - 4294967296
      )
  ) as is_put_in_flight
