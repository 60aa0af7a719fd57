-- When a job may be taken that cannot be taken now, as far as that is known: the next scheduled
-- job, and the next release of a channel that has ready jobs and waits for its interval or rate.
-- What is due for longer than a minute is not looked for: the next take makes it ready, and dead
-- index entries that an old snapshot keeps are there. The settings and the order by keep the
-- planner on the indexes, whatever it believes about the tables.
create or replace function {schema}.next_due() returns timestamptz
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  this_moment constant timestamptz := clock_timestamp();
  scheduled_at timestamptz;
  released_at timestamptz;
begin
  select {schema}.in_range(j.run_at) into scheduled_at
  from {schema}.jobs as j
  where j.status = 'scheduled' and j.run_at > this_moment - interval '1 minute'
  order by j.run_at
  limit 1;
  select min(limited.free_at) into released_at
  from (
    select c.name, greatest(
      case when p.release_interval is not null then c.next_release_at end,
      -- From then on, one of the burst has come back.
      c.rate_at - (p.rate_burst - 1) * p.rate_period / p.rate_count
    ) as free_at
    from {schema}.channels as p
    cross join lateral (
      select o.name, o.next_release_at, o.rate_at, o.is_paused
      from {schema}.channels as o where o.name = p.name
      union all
      select m.name, m.next_release_at, m.rate_at, m.is_paused
      from {schema}.channels as m where m.family = p.name
    ) as c
    where (p.release_interval is not null or p.rate_count is not null)
      and not p.is_paused and not c.is_paused
  ) as limited
  cross join lateral (
    select from {schema}.jobs as j
    where j.status = 'ready' and j.channel = limited.name
    order by j.channel, j.priority, j.run_at, j.id
    limit 1
  ) as waiting
  where limited.free_at > this_moment;
  return least(scheduled_at, released_at);
end;
$$;
