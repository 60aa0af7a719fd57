-- Take up to `max_count` jobs from these channels, an equal share from each, in this order, which is
-- that of their names from the first one on. See take(). The rows come in no particular order: the
-- caller sorts the columns that it needs, which is cheaper. `head_*` is the place of a job in each
-- channel: what is before it is not read, nor are the dead index entries there that an old snapshot
-- keeps. With `looks_before`, more urgent jobs than that one (with a lower priority) are read too:
-- for a caller that remembers places.
--
-- A take that is not durable does not wait for the disk: a crash of the server may undo it, and
-- then its jobs are ready again. So they get a token in addition to the attempt, because the next
-- take will use the same attempt number: both must be named to change a job, and the verdict for
-- the first taker is stale. If a channel has limits the take is always durable: otherwise the
-- limits would not count jobs that are still running after such a crash. Only for transactions that
-- do nothing else.
--
-- Taking counts as beginning, unless the caller takes ahead of its handlers (`is_ahead`) and says
-- later which jobs have begun (mark_begun, heartbeat). Until a job of a channel with a
-- release_interval has begun, its channel releases nothing more.
--
-- A job that two attempts in a row ended with their lock (recover_expired) may have killed its
-- worker. It is taken alone, when it is the first of those that are found: see `chosen`.
--
-- The table lock keeps set_channel() out: the policies that are read here stay valid until the jobs
-- are committed as running.
create or replace function {schema}.take_from(
  channels text[],
  max_count integer,
  lock_for interval default '30 seconds',
  head_priorities smallint[] default null,
  head_run_ats timestamptz[] default null,
  head_ids bigint[] default null,
  is_durable boolean default true,
  is_ahead boolean default false,
  looks_before boolean default false
) returns setof {schema}.jobs
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
-- Otherwise the statement would be planned at every take, because the planner expects several
-- channels.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  asked_channels constant integer := cardinality(take_from.channels);
  share constant integer := greatest(1, take_from.max_count / greatest(1, asked_channels));
  -- The first ones get one more, so that the sum is what is wanted.
  one_more constant integer := greatest(0, take_from.max_count - share * greatest(1, asked_channels));
  has_families boolean;
  is_limited boolean;  -- any of them
  locked bigint[];  -- as their numbers in the given order, which are compared faster than names
  totals text[] := '{}';  -- the locked families that have a limit over all their channels
  families text[];  -- of each channel, if it has such a limit
  rated text[];
  metered text[];  -- channels with a rate
  lagging text[];  -- channels whose hint where to count from is far behind
  quotas integer[];
  -- Not from a sequence: a crash may undo what was drawn from it.
  new_token constant bigint := case when not take_from.is_durable then random() * 2 ^ 53 end;
  mark bigint;
  this_moment timestamptz;
  done text;
begin
  -- The snapshot would be older than the locks, and the count of running jobs too low.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'jobs cannot be taken at isolation level %',
      current_setting('transaction_isolation')
      using errcode = 'MP006',
        hint = 'Take in READ COMMITTED: above it, the limits of channels would not hold.';
  end if;
  -- Locks the table in ROW SHARE mode. LOCK TABLE would do the same, but needs the privilege to
  -- update every column; a worker may update some.
  perform from {schema}.channels where false for key share;
  -- One statement for both: most applications have no policies, and each statement costs something.
  select
    exists (select from {schema}.channels as f where right(f.name, 1) = '*'),
    exists (
      select from {schema}.channels as c
      where c.name = any(take_from.channels collate "C")
        and (
          c.is_paused or c.family is not null or c.max_concurrency is not null
          or c.release_interval is not null or c.rate_count is not null
        )
    )
  into has_families, is_limited;
  if has_families then
    perform {schema}.join_families(take_from.channels);
    is_limited := is_limited or exists (
      select from {schema}.channels as c
      where c.name = any(take_from.channels collate "C") and c.family is not null
    );
  end if;
  if is_limited then
    locked := array(
      select a.turn
      from unnest(take_from.channels) with ordinality as a (name, turn)
      join {schema}.channels as c on c.name = a.name collate "C"
      where c.is_paused or c.family is not null or c.max_concurrency is not null
        or c.release_interval is not null or c.rate_count is not null
      order by c.name
      for update of c skip locked
    );
    if has_families then
      totals := array(
        select f.name
        from {schema}.channels as f
        where f.max_concurrency_total is not null and f.name in (
          select c.family from {schema}.channels as c
          where c.name = any(take_from.channels collate "C")
        )
        order by f.name
        for update of f skip locked
      );
    end if;
    mark := nextval('{schema}.jobs_taken_seq');
    this_moment := clock_timestamp();
    -- A separate statement: its snapshot sees what was committed before the locks were granted.
    select
      array_agg(asked.name order by asked.turn),
      array_agg(asked.quota order by asked.turn),
      array_agg(asked.total_of order by asked.turn),
      array_agg(asked.name) filter (where asked.is_rated),
      array_agg(asked.name) filter (where asked.is_metered),
      array_agg(asked.name) filter (where asked.oldest_running < mark - 5000),
      array_agg(asked.head_priority order by asked.turn),
      array_agg(asked.head_run_at order by asked.turn),
      array_agg(asked.head_id order by asked.turn)
    into
      take_from.channels, quotas, families, rated, metered, lagging,
      take_from.head_priorities, take_from.head_run_ats, take_from.head_ids
    from (
      select
        a.name, a.turn, a.head_priority, a.head_run_at, a.head_id,
        c.release_interval is not null as is_rated,
        c.rate_count is not null as is_metered,
        case when c.max_concurrency_total is not null then c.family end as total_of,
        case when c.max_concurrency is not null then c.oldest_running end as oldest_running,
        least(
          share + (a.turn <= one_more)::integer,
          case when c.release_interval is not null then 1 end,
          {schema}.rate_allows(c.rate_count, c.rate_period, c.rate_burst, c.rate_at, this_moment),
          c.max_concurrency - running.number
        ) as quota
      from (
        select
          u.*, row_number() over (partition by u.name collate "C" order by u.turn) as mention
        from unnest(
          take_from.channels, take_from.head_priorities, take_from.head_run_ats, take_from.head_ids
        ) with ordinality as u (name, head_priority, head_run_at, head_id, turn)
      ) as a
      left join {schema}.channel_policies() as c on c.name = a.name collate "C"
      left join lateral (
        select count(*)::integer as number from {schema}.jobs as r
        where c.max_concurrency is not null
          and r.status = 'running' and r.channel = c.name collate "C"
          and r.taken >= c.oldest_running
      ) as running on true
      -- Only the job that was taken last can be awaited: none was taken while another one was.
      left join lateral (
        select r.is_begin_awaited from {schema}.jobs as r
        where c.release_interval is not null and r.status = 'running' and r.channel = c.name collate "C"
        order by r.channel desc, r.taken desc
        limit 1
      ) as newest on true
      -- A channel that is named twice gets one share.
      where a.mention = 1 and (
        c.name is null
        or not c.is_paused and (
          not c.is_limited
          or a.turn = any(locked)
            and (
              c.release_interval is null
              or c.next_release_at <= clock_timestamp() and newest.is_begin_awaited is not true
            )
            and (c.max_concurrency_total is null or c.family = any(totals))
        )
      )
    ) as asked
    where asked.quota > 0;
    if cardinality(totals) > 0 then
      quotas := {schema}.share_totals(families, quotas);
    end if;
  else
    quotas := array_fill(share + 1, array[one_more])
      || array_fill(share, array[asked_channels - one_more]);
  end if;
  if coalesce(cardinality(take_from.channels), 0) = 0 then
    return;
  end if;

  return query
  with picked as materialized (
    select job.id, job.is_suspect
    from unnest(
      take_from.channels, quotas, take_from.head_priorities, take_from.head_run_ats,
      take_from.head_ids
    ) as a (name, quota, head_priority, head_run_at, head_id)
    cross join lateral (
      select candidate.id, candidate.is_suspect
      from (
        select urgent.id, urgent.is_suspect from (
          select j.id, j.crashes >= 2 as is_suspect from {schema}.jobs as j
          where take_from.looks_before
            and j.status = 'ready' and j.channel = a.name collate "C"
            and j.priority < a.head_priority
          order by j.channel, j.priority, j.run_at, j.id
          limit a.quota
          for update skip locked
        ) as urgent
        union all
        select next.id, next.is_suspect from (
          select j.id, j.crashes >= 2 as is_suspect from {schema}.jobs as j
          where j.status = 'ready' and j.channel = a.name collate "C"
            and (j.priority, j.run_at, j.id) >= (
              coalesce(a.head_priority, '-32768'::smallint),
              coalesce(a.head_run_at, '-infinity'::timestamptz),
              coalesce(a.head_id, '-9223372036854775808'::bigint)
            )
          order by j.channel, j.priority, j.run_at, j.id
          limit a.quota
          for update skip locked
        ) as next
      ) as candidate
      limit a.quota
    ) as job
    limit take_from.max_count
  ),
  chosen as (
    select p.id from picked as p
    where case
        when (select first.is_suspect from picked as first limit 1)
        then p.id = (select first.id from picked as first limit 1)
        else not p.is_suspect
      end
  )
  update {schema}.jobs as j
  set status = 'running',
    is_begun = not take_from.is_ahead,
    is_begin_awaited = take_from.is_ahead and rated is not null and j.channel = any(rated),
    attempt = j.attempt + 1,
    token = new_token,
    taken = nextval('{schema}.jobs_taken_seq'),
    locked_until = clock_timestamp() + take_from.lock_for
  -- Not as a join: a planner that believes that the table is empty would read the whole index of
  -- ids, with the dead entries that an old snapshot keeps.
  where j.id = any(array(select chosen.id from chosen))
  returning j.*;
  -- Set here, where it is known: a round without a job may be followed by one with limits.
  if found and new_token is not null and not is_limited then
    done := set_config('synchronous_commit', 'off', true);
  end if;

  if cardinality(rated) > 0 then
    update {schema}.channels as c
    set next_release_at = clock_timestamp() + p.release_interval
    from {schema}.channel_policies() as p
    where c.name = any(rated collate "C") and p.name = c.name collate "C"
      and exists (
        select from {schema}.jobs as j
        where j.status = 'running' and j.channel = c.name and j.taken > mark
      );
  end if;
  if cardinality(metered) > 0 then
    perform {schema}.spend_rates(metered, mark);
  end if;
  -- A hint for counting running jobs. It stays valid, because `taken` is drawn under the channel's
  -- lock: later jobs have higher values. Updated rarely, to avoid bloat.
  if cardinality(lagging) > 0 then
    update {schema}.channels as c
    set oldest_running = coalesce(
      (
        select r.taken from {schema}.jobs as r
        where r.status = 'running' and r.channel = c.name and r.taken >= c.oldest_running
        order by r.channel, r.taken limit 1
      ),
      mark
    )
    where c.name = any(lagging collate "C");
  end if;
end;
$$;
