-- Set the whole policy of a channel, or of a family of channels (`tenant.*`); what is not given is
-- unlimited. It takes effect immediately: the lock waits for takes in progress, which may not know
-- the policy, and blocks new ones until the commit. So call it in a short transaction.
create or replace function {schema}.set_channel(
  name text,
  max_concurrency integer default null,
  release_interval interval default null,
  max_size integer default null,
  paused boolean default false,
  max_concurrency_total integer default null,
  rate_count integer default null,
  rate_period interval default null,
  rate_burst integer default null
) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
  -- Without a policy the last release was not recorded: start with a whole interval.
  first_release_at constant timestamptz :=
    clock_timestamp() + coalesce(set_channel.release_interval, interval '0');
begin
  perform {schema}.refuse_policy(
    set_channel.name, set_channel.max_concurrency, set_channel.release_interval,
    set_channel.max_size, set_channel.paused, set_channel.max_concurrency_total,
    set_channel.rate_count, set_channel.rate_period, set_channel.rate_burst
  );
  perform {schema}.refuse_reserved(array[set_channel.name]);
  lock table {schema}.channels in exclusive mode;
  -- Before the policy changes: the last release was at next_release_at minus the old interval. Of a
  -- family, usually no row but its own changes.
  update {schema}.channels as c
  set next_release_at = case
      when p.release_interval is null then first_release_at
      else c.next_release_at - p.release_interval
        + coalesce(set_channel.release_interval, interval '0')
    end,
    -- Where there was no limit, jobs were taken without the lock, and the hint may hide some.
    oldest_running = case when c.is_policy then 0 else c.oldest_running end
  from {schema}.channel_policies() as p
  where p.name = c.name collate "C"
    and (
      c.name = set_channel.name
      or c.family = set_channel.name
        and p.release_interval is distinct from set_channel.release_interval
    );
  insert into {schema}.channels as c (
    name, max_concurrency, release_interval, max_size, is_paused, next_release_at,
    max_concurrency_total, rate_count, rate_period, rate_burst
  ) values (
    set_channel.name, set_channel.max_concurrency, set_channel.release_interval,
    set_channel.max_size, set_channel.paused, first_release_at, set_channel.max_concurrency_total,
    set_channel.rate_count, set_channel.rate_period,
    coalesce(set_channel.rate_burst, case when set_channel.rate_count is not null then 1 end)
  )
  on conflict (name) do update set
    max_concurrency = excluded.max_concurrency,
    release_interval = excluded.release_interval,
    max_size = excluded.max_size,
    is_paused = excluded.is_paused,
    max_concurrency_total = excluded.max_concurrency_total,
    rate_count = excluded.rate_count,
    rate_period = excluded.rate_period,
    rate_burst = excluded.rate_burst,
    is_policy = true,
    family = null,
    updated_at = clock_timestamp();
  perform {schema}.refresh_members(set_channel.name);
  perform pg_notify(concat({channel}, '_queue'), '');
end;
$$;
