-- Take up to `max_count` jobs from these channels, an equal share from each, in this order. See
-- take(). `head_*`: the place of a job in each channel; what lies before it is not looked at, nor are
-- the dead entries there that a held snapshot keeps.
--
-- A take that is not durable does not wait for the disk: a crash of the server may forget it, and
-- then its jobs are ready as if nothing had been. So they get a token besides the attempt, which the
-- next take will count up to again: whoever changes them names both, and what the first taker says is
-- stale. Where a channel has limits the take is durable all the same: the limits could not count what
-- was forgotten and still runs. Only for transactions that do nothing else.
--
-- The table lock keeps set_channel() out: what is read here of the policies stays true until the
-- jobs are committed as running.
create or replace function {schema}.take_from(
  channels text[],
  max_count integer,
  lock_for interval default '30 seconds',
  head_priorities smallint[] default null,
  head_run_ats timestamptz[] default null,
  head_ids bigint[] default null,
  is_durable boolean default true
) returns setof {schema}.jobs
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
-- Otherwise the planner, who counts on more channels than one, would be asked at every take.
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  asked_channels constant integer := cardinality(take_from.channels);
  share constant integer := greatest(1, take_from.max_count / greatest(1, asked_channels));
  -- The first ones get one more, so that all together give what is wanted.
  one_more constant integer := greatest(0, take_from.max_count - share * greatest(1, asked_channels));
  is_limited boolean;  -- any of them
  locked bigint[];  -- as numbers of their turns, which are compared faster than names
  rated text[];
  lagging text[];  -- whose hint where to count from has fallen far behind
  quotas integer[];
  -- From no sequence: a crash may forget what was drawn from it.
  new_token constant bigint := case when not take_from.is_durable then random() * 2 ^ 53 end;
  mark bigint;
  done text;
begin
  -- The snapshot would be older than the locks, and the count of what runs too low.
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'jobs cannot be taken at isolation level %',
      current_setting('transaction_isolation')
      using errcode = 'MP006',
        hint = 'Take in READ COMMITTED: above it, the limits of channels would not hold.';
  end if;
  -- Locks the table in ROW SHARE mode. LOCK TABLE would do the same, for those who may update every
  -- column of it; a worker may update two.
  perform from {schema}.channels where false for key share;
  is_limited := exists (
    select from {schema}.channels as c
    where c.name = any(take_from.channels collate "C")
      and (c.is_paused or c.max_concurrency is not null or c.release_interval is not null)
  );
  if is_limited then
    locked := array(
      select a.turn
      from unnest(take_from.channels) with ordinality as a (name, turn)
      join {schema}.channels as c on c.name = a.name collate "C"
      where c.is_paused or c.max_concurrency is not null or c.release_interval is not null
      order by c.name
      for update of c skip locked
    );
    mark := nextval('{schema}.jobs_taken_seq');
    -- A statement of its own: its snapshot sees what was committed before the locks were had.
    select
      array_agg(asked.name order by asked.turn),
      array_agg(asked.quota order by asked.turn),
      array_agg(asked.name) filter (where asked.is_rated),
      array_agg(asked.name) filter (where asked.oldest_running < mark - 5000),
      array_agg(asked.head_priority order by asked.turn),
      array_agg(asked.head_run_at order by asked.turn),
      array_agg(asked.head_id order by asked.turn)
    into
      take_from.channels, quotas, rated, lagging,
      take_from.head_priorities, take_from.head_run_ats, take_from.head_ids
    from (
      select
        a.name, a.turn, a.head_priority, a.head_run_at, a.head_id,
        c.release_interval is not null as is_rated,
        case when c.max_concurrency is not null then c.oldest_running end as oldest_running,
        least(
          share + (a.turn <= one_more)::integer,
          case when c.release_interval is not null then 1 end,
          c.max_concurrency - running.number
        ) as quota
      from (
        select
          u.*, row_number() over (partition by u.name collate "C" order by u.turn) as mention
        from unnest(
          take_from.channels, take_from.head_priorities, take_from.head_run_ats, take_from.head_ids
        ) with ordinality as u (name, head_priority, head_run_at, head_id, turn)
      ) as a
      left join {schema}.channels as c on c.name = a.name collate "C"
      left join lateral (
        select count(*)::integer as number from {schema}.jobs as r
        where c.max_concurrency is not null
          and r.status = 'running' and r.channel = c.name and r.taken >= c.oldest_running
      ) as running on true
      -- A channel that is named twice gets no second share.
      where a.mention = 1 and (
        c.name is null
        or not c.is_paused and (
          c.max_concurrency is null and c.release_interval is null
          or a.turn = any(locked)
            and (c.release_interval is null or c.next_release_at <= clock_timestamp())
        )
      )
    ) as asked
    where asked.quota > 0;
  else
    quotas := array_fill(share + 1, array[one_more])
      || array_fill(share, array[asked_channels - one_more]);
  end if;
  if coalesce(cardinality(take_from.channels), 0) = 0 then
    return;
  end if;

  return query
  with picked as materialized (
    select job.id
    from unnest(
      take_from.channels, quotas, take_from.head_priorities, take_from.head_run_ats,
      take_from.head_ids
    ) as a (name, quota, head_priority, head_run_at, head_id)
    cross join lateral (
      select j.id from {schema}.jobs as j
      where j.status = 'ready' and j.channel = a.name collate "C"
        and (j.priority, j.run_at, j.id) >= (
          coalesce(a.head_priority, '-32768'::smallint), coalesce(a.head_run_at, '-infinity'::timestamptz),
          coalesce(a.head_id, '-9223372036854775808'::bigint)
        )
      order by j.channel, j.priority, j.run_at, j.id
      limit a.quota
      for update skip locked
    ) as job
    limit take_from.max_count
  ),
  taken as (
    update {schema}.jobs as j
    set status = 'running',
      attempt = j.attempt + 1,
      token = new_token,
      taken = nextval('{schema}.jobs_taken_seq'),
      locked_until = clock_timestamp() + take_from.lock_for
    from picked
    where j.id = picked.id
    returning j.*
  )
  select * from taken order by taken.taken;
  -- Here, where it is known: a turn of take() without a job may be followed by one with limits.
  if found and new_token is not null and not is_limited then
    done := set_config('synchronous_commit', 'off', true);
  end if;

  if cardinality(rated) > 0 then
    update {schema}.channels as c
    set next_release_at = clock_timestamp() + c.release_interval
    where c.name = any(rated collate "C")
      and exists (
        select from {schema}.jobs as j
        where j.status = 'running' and j.channel = c.name and j.taken > mark
      );
  end if;
  -- A hint for counting what runs. True for ever, because `taken` is drawn under the channel's lock:
  -- what runs later is higher. Seldom, so that the row does not bloat itself.
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
