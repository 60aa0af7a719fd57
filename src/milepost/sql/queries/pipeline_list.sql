-- Lag counts the messages that pass the pipeline's own filter, up to a bound. A kept version that
-- is not active makes no progress, and has no lag. What was removed from the table is counted without
-- reading the archive: if that counts too few, the lag is not exact.
select
  p.name,
  p.version,
  p.code_version,
  p.is_active,
  p.sink,
  case when p.target is not null then format('%%I.%%I', p.target_schema, p.target) end as target,
  c.transaction_id,
  c."position",
  least(archived.messages + lag.messages, %(count_up_to)s) as lag_messages,
  archived.messages + lag.messages < %(count_up_to)s and archived.is_exact as is_lag_exact,
  coalesce(
    greatest(lag.seconds, extract(epoch from clock_timestamp() - archived.oldest)), 0
  )::double precision as lag_seconds,
  case
    when p.is_active and p.is_paused then 'paused'
    when p.built_at is not null and not p.is_active then 'kept'
    when p.state not in ('stopped', 'failed')
      and p.reported_at < clock_timestamp() - is_late.after then 'silent'
    when p.built_at is null and p.state in ('starting', 'running') then 'rebuilding'
    when p.is_active and p.hold_until > clock_timestamp() then 'held'
    else p.state
  end as state,
  p.owner,
  p.batches,
  p.rows,
  case when p.reported_at < clock_timestamp() - is_late.after then 0 else p.batches_per_second end
    as batches_per_second,
  case when p.reported_at < clock_timestamp() - is_late.after then 0 else p.rows_per_second end
    as rows_per_second,
  p.phases_ms,
  p.last_error,
  p.last_error_at,
  p.built_at,
  c.updated_at,
  extract(epoch from clock_timestamp() - p.reported_at)::float8 as silent_seconds,
  (
    select count(*)
    from {schema}.dead_letters as d
    where d.processor = p.name and d.version = p.version
  ) as dead_letters,
  (
    select jsonb_agg(
      jsonb_build_object('name', e.expectation, 'passed', e.passed, 'violated', e.violated)
      order by e.expectation
    )
    from {schema}.pipeline_expectations as e
    where e.pipeline = p.name and e.version = p.version
  ) as expectations,
  case
    when p.rejected is not null
      then format('%%I.%%I', coalesce(p.target_schema, '{schema}'::regnamespace::text), p.rejected)
  end as rejected,
  p.spark_page
from {schema}.pipelines as p
left join {schema}.checkpoints as c
  on c.processor = p.name and c.version = p.version and c.segment = 0
cross join lateral (
  -- A rebuild reports after each of its ranges, which are large.
  select case when p.built_at is null then interval '5 min' else interval '30 s' end as after
) as is_late
cross join lateral {schema}.archived_lag(
  case
    when p.is_active or p.built_at is null
      then row(coalesce(c.transaction_id, 0), coalesce(c."position", 0))::{schema}.position
    else row(9223372036854775807, 0)::{schema}.position
  end,
  p.topics, p.types
) as archived
cross join lateral (
  select
    count(*) as messages,
    extract(
      epoch from clock_timestamp()
        - min(waiting.recorded_at) filter (where isfinite(waiting.recorded_at))
    ) as seconds
  from (
    select m.recorded_at
    from {schema}.messages as m
    where (p.is_active or p.built_at is null)
      and (m.transaction_id, m."position")
        > (coalesce(c.transaction_id, 0), coalesce(c."position", 0))
      and (p.topics is null or m.topic = any(p.topics))
      and (p.types is null or m.type = any(p.types))
    order by m.transaction_id, m."position"
    limit %(count_up_to)s
  ) as waiting
) as lag
where %(name)s::text is null or p.name = %(name)s
order by p.name, p.version
