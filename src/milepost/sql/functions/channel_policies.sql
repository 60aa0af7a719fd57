-- The limits that apply to each channel that has a row: its own, or all those of its family. The
-- one place where this is decided. A pause of either applies. In plain SQL, so that it becomes a
-- part of the statement that calls it.
create or replace function {schema}.channel_policies() returns table (
  name text,
  family text,
  is_paused boolean,
  is_limited boolean,
  max_concurrency integer,
  max_concurrency_total integer,
  release_interval interval,
  next_release_at timestamptz,
  rate_count integer,
  rate_period interval,
  rate_burst integer,
  rate_at timestamptz,
  oldest_running bigint
)
language sql stable as $$
  select
    c.name,
    c.family,
    c.is_paused or coalesce(f.is_paused, false),
    c.family is not null or c.max_concurrency is not null or c.release_interval is not null
      or c.rate_count is not null,
    coalesce(c.max_concurrency, f.max_concurrency),
    f.max_concurrency_total,
    coalesce(c.release_interval, f.release_interval),
    c.next_release_at,
    coalesce(c.rate_count, f.rate_count),
    coalesce(c.rate_period, f.rate_period),
    coalesce(c.rate_burst, f.rate_burst),
    c.rate_at,
    c.oldest_running
  from {schema}.channels as c
  -- The row of a member has no limits itself. Most rows are no members: the first condition saves
  -- them the descent.
  left join {schema}.channels as f on c.family is not null and f.name = c.family
$$;
