-- All versions of all pipelines, for metrics(), as metrics_processors(). A version that is kept and not active makes
-- no progress, and has no lag. `progress`: of a rebuild, the share of the log's positions that it has
-- passed.
create or replace function {schema}.metrics_pipelines(max_counted integer) returns json
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  max_walked constant integer := (
    select coalesce(metrics_pipelines.max_counted, greatest(100, 1000 / greatest(count(*), 2)))
    from {schema}.pipelines
  );
  newest bigint;
begin
  select m."position" into newest
  from {schema}.messages as m order by m.transaction_id desc, m."position" desc limit 1;
  return (
    select coalesce(json_agg(
      json_build_object(
        'name', p.name,
        'version', p.version,
        'is_active', p.is_active,
        'transaction_id', c.transaction_id,
        'position', c."position",
        'state', case
          when p.is_active and p.is_paused then 'paused'
          when p.built_at is not null and not p.is_active then 'kept'
          when p.state not in ('stopped', 'failed')
            and p.reported_at < clock_timestamp() - is_late.after then 'silent'
          when p.built_at is null and p.state in ('starting', 'running') then 'rebuilding'
          when p.is_active and p.hold_until > clock_timestamp() then 'held'
          else p.state
        end,
        'lag_messages', coalesce(lag.messages, 0),
        'is_lag_exact', coalesce(lag.is_exact, true),
        'lag_seconds', coalesce(lag.seconds, 0),
        'batches', p.batches,
        'rows', p.rows,
        'batches_per_second', case
          when p.reported_at < clock_timestamp() - is_late.after then 0 else p.batches_per_second
        end,
        'rows_per_second', case
          when p.reported_at < clock_timestamp() - is_late.after then 0 else p.rows_per_second
        end,
        'phases_ms', p.phases_ms,
        'progress', case
          when p.built_at is not null then null
          when coalesce(newest, 0) = 0 or lag.messages = 0 then 1
          else least(greatest(1 - lag.messages::float8 / newest, 0), 1)
        end,
        'dead_letters', (
          select count(*) from (
            select from {schema}.dead_letters as d
            where d.processor = p.name and d.version = p.version limit 10000
          ) as counted
        ),
        'silent_seconds', {schema}.age_seconds(p.reported_at)
      )
      order by p.name, p.version
    ), '[]')
    from {schema}.pipelines as p
    left join {schema}.checkpoints as c
      on c.processor = p.name and c.version = p.version and c.segment = 0
    cross join lateral (
      -- A rebuild reports after each of its ranges, which are large.
      select case when p.built_at is null then interval '5 min' else interval '30 s' end as after
    ) as is_late
    left join lateral {schema}.follower_lag(
      p.name, p.version, p.topics, p.types, max_walked
    ) as lag on p.is_active or p.built_at is null
  );
end;
$$;
