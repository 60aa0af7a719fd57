-- What the pipeline reads and where it writes is stored for its operators. The first version of a
-- pipeline is active from the start; the others become active by a swap.
insert into {schema}.pipelines (
  name, version, topics, types, code_version, sink, target_schema, target, target_table, state,
  owner, started_at, is_active, built_at, spark_page
)
select
  %(pipeline)s, %(version)s, %(topics)s, %(types)s, %(code_version)s, %(sink)s,
  case when %(target)s::text is not null then coalesce(%(target_schema)s, current_schema()) end,
  %(target)s, %(target_table)s, 'starting', %(owner)s, clock_timestamp(), first.is_first,
  case when first.is_first then clock_timestamp() end, %(spark_page)s
from (
  select not exists (select from {schema}.pipelines where name = %(pipeline)s) as is_first
) as first
on conflict (name, version) do update
set topics = excluded.topics,
  types = excluded.types,
  sink = excluded.sink,
  target_schema = excluded.target_schema,
  target = excluded.target,
  target_table = excluded.target_table,
  started_at = excluded.started_at,
  spark_page = excluded.spark_page
