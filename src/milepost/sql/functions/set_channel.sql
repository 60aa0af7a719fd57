-- Set a channel's whole policy; what is left out is unlimited. Takes effect at once: the lock waits
-- for the takes under way, which may not know the policy, and holds up new ones until it is
-- committed. So call it in a short transaction.
create or replace function {schema}.set_channel(
  name text,
  max_concurrency integer default null,
  release_interval interval default null,
  max_size integer default null,
  paused boolean default false
) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
  lock table {schema}.channels in exclusive mode;
  insert into {schema}.channels as c (
    name, max_concurrency, release_interval, max_size, is_paused, next_release_at
  ) values (
    set_channel.name, set_channel.max_concurrency, set_channel.release_interval,
    set_channel.max_size, set_channel.paused,
    -- Under no policy the last release was not recorded: begin with a whole interval.
    clock_timestamp() + coalesce(set_channel.release_interval, interval '0')
  )
  on conflict (name) do update set
    max_concurrency = excluded.max_concurrency,
    release_interval = excluded.release_interval,
    max_size = excluded.max_size,
    is_paused = excluded.is_paused,
    -- A jobs's last release is next_release_at less the old interval.
    next_release_at = case
      when c.release_interval is null then excluded.next_release_at
      else c.next_release_at - c.release_interval
        + coalesce(excluded.release_interval, interval '0')
    end,
    oldest_running = 0,
    updated_at = clock_timestamp();
  perform pg_notify(concat({channel}, '_queue'), '');
end;
$$;
