-- For a worker that found nothing: in how many seconds a job may be there (null: none is known),
-- and whether something is under way that may not wake any worker: a put in flight; an end of a job
-- that was not told to those that wait for it, because a row was locked (tend_followers); or another
-- take, beside which a limited channel has jobs. It has locked the channel, so that ours skipped it, and
-- may have seen it at its limit, because it began before the last job there ended.
select
  extract(epoch from {schema}.next_due() - clock_timestamp())::float8 as seconds,
  (select e.number from {schema}.job_endings as e order by e.number limit 1) is not null
  or (
    select d.job_id from {schema}.job_dependencies as d where not d.is_linked
    order by d.job_id limit 1
  ) is not null
  or exists (
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
  ) else false end as is_under_way
