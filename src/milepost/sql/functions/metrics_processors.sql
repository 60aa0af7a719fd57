-- All processors, for metrics(): each with the fields of its row that are numbers or names. Dead letters
-- and parked keys are counted up to 10,000. The messages that follower_lag() examines are shared among
-- the processors, so that many that are far behind cost as much as a few.
create or replace function {schema}.metrics_processors(max_counted integer) returns json
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  max_walked constant integer := (
    select coalesce(metrics_processors.max_counted, greatest(100, 1000 / greatest(count(*), 2)))
    from {schema}.processors
  );
begin
  return (
    select coalesce(json_agg(
      json_build_object(
        'name', p.name,
        'version', p.version,
        'transaction_id', c.transaction_id,
        'position', c."position",
        'state', case
          when p.is_paused then 'paused'
          when p.segments is not null and living.number > 0 and p.state in ('stopped', 'failed')
            then 'running'
          when p.state not in ('stopped', 'failed')
            and p.reported_at < clock_timestamp() - interval '30 s' then 'silent'
          else p.state
        end,
        'lag_messages', lag.messages,
        'is_lag_exact', lag.is_exact,
        'lag_seconds', greatest(
          lag.seconds - coalesce(extract(epoch from archivable.age), 0), 0
        ),
        'unhandled_messages', lag.unhandled,
        'oldest_gap_seconds', lag.gap_seconds,
        'rate', case
          when p.segments is not null then living.rate
          when p.reported_at < clock_timestamp() - interval '30 s' then 0
          else p.rate
        end,
        'handled', p.handled,
        'dead_letters', (
          select count(*) from (
            select from {schema}.dead_letters as d
            where d.processor = p.name and d.version = p.version limit 10000
          ) as counted
        ),
        'parked_keys', (
          select count(*) from (
            select from {schema}.parked_keys as k
            where k.processor = p.name and k.version = p.version limit 10000
          ) as counted
        ),
        'segments', p.segments,
        'instances', living.number,
        'silent_seconds', {schema}.age_seconds(p.reported_at)
      )
      order by p.name, p.version
    ), '[]')
    from {schema}.processors as p
    left join lateral (
      select each.transaction_id, each."position"
      from {schema}.checkpoints as each
      where each.processor = p.name and each.version = p.version
      order by each.transaction_id, each."position" limit 1
    ) as c on true
    cross join lateral (
      select count(*) as number, coalesce(sum(i.rate), 0) as rate
      from {schema}.instances as i
      where i.processor = p.name and i.version = p.version and i.alive_until > clock_timestamp()
    ) as living
    -- The archiver is behind only with what the policy wants to be archived, and only since then.
    cross join lateral (
      select
        case when p.name = 'milepost.archive' then {schema}.archivable_up_to(max_walked) end as up_to,
        case when p.name = 'milepost.archive' then {schema}.archive_age() end as age
    ) as archivable
    cross join lateral {schema}.follower_lag(
      p.name, p.version, p.topics, p.types, max_walked, archivable.up_to
    ) as lag
  );
end;
$$;
