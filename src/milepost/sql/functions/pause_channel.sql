-- Pause or resume a channel or a family; the limits stay. A smaller family that had no policy gets
-- a copy of the limits that its channels had. A channel of a paused family cannot be resumed alone.
-- See set_channel().
create or replace function {schema}.pause_channel(name text, paused boolean default true)
returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
  is_family constant boolean := right(pause_channel.name, 1) = '*';
begin
  perform {schema}.refuse_policy(pause_channel.name, paused => pause_channel.paused);
  perform {schema}.refuse_reserved(array[pause_channel.name]);
  lock table {schema}.channels in exclusive mode;
  update {schema}.channels as c
  set is_paused = pause_channel.paused, updated_at = clock_timestamp()
  where c.name = pause_channel.name;
  if not found and pause_channel.paused then
    insert into {schema}.channels (
      name, is_policy, is_paused, max_concurrency, release_interval, max_size, rate_count,
      rate_period, rate_burst
    )
    select
      pause_channel.name, is_family, true, f.max_concurrency, f.release_interval, f.max_size,
      f.rate_count, f.rate_period, f.rate_burst
    from (values (case when is_family then left(pause_channel.name, -1) end)) as asked (prefix)
    left join lateral {schema}.family_of(asked.prefix) as found on true
    left join {schema}.channels as f on f.name = found.family collate "C";
  end if;
  perform {schema}.refresh_members(pause_channel.name);
  perform pg_notify(concat({channel}, '_queue'), '');
end;
$$;
