-- For a worker that found nothing: in how many seconds a job may be there (null: none is known),
-- and whether something is in flight that will not wake any worker: a put; or another take, beside
-- which a limited channel has jobs. It has locked the channel, so that ours skipped it, and may have
-- seen it at its limit, because it began before the last job there ended.
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
  )
  or case when exists (
    select from pg_locks as l
    where l.locktype = 'relation' and l.relation = '{schema}.channels'::regclass
      and l.mode = 'RowShareLock' and l.pid <> pg_backend_pid()
      and l.database = (select d.oid from pg_database as d where d.datname = current_database())
  ) then exists (
    select from {schema}.channels as c
    cross join lateral (
      select from {schema}.jobs as j
      where j.status = 'ready' and j.channel = c.name
      order by j.channel, j.priority, j.run_at, j.id
      limit 1
    ) as waiting
    where not c.is_paused
  ) else false end as is_put_in_flight
