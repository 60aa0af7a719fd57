-- The gauges of metrics(), as processor_list; with them what is not a gauge.
select
  g.name,
  g.version,
  p.code_version,
  g.is_active,
  p.sink,
  case when p.target is not null then format('%%I.%%I', p.target_schema, p.target) end as target,
  g.transaction_id,
  g."position",
  g.lag_messages,
  g.is_lag_exact,
  g.lag_seconds,
  g.state,
  p.owner,
  g.batches,
  g.rows,
  g.batches_per_second,
  g.rows_per_second,
  g.phases_ms,
  p.last_error,
  p.last_error_at,
  p.built_at,
  c.updated_at,
  g.silent_seconds,
  g.dead_letters,
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
from json_to_recordset({schema}.metrics(array['pipelines']) -> 'pipelines') as g (
  name text, version integer, is_active boolean, transaction_id bigint, "position" bigint, state text,
  lag_messages bigint, is_lag_exact boolean, lag_seconds float8, batches bigint, rows bigint,
  batches_per_second float8, rows_per_second float8, phases_ms jsonb, dead_letters bigint,
  silent_seconds float8
)
join {schema}.pipelines as p on p.name = g.name and p.version = g.version
left join {schema}.checkpoints as c
  on c.processor = p.name and c.version = p.version and c.segment = 0
where %(name)s::text is null or p.name = %(name)s
order by p.name, p.version
