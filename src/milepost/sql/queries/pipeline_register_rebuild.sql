-- A version that a rebuild starts or continues. Never active, even if it is the first one.
insert into {schema}.pipelines (
  name, version, topics, types, code_version, sink, target_schema, target, target_table, state,
  owner, started_at
) values (
  %(pipeline)s, %(version)s, %(topics)s, %(types)s, %(code_version)s, %(sink)s,
  coalesce(%(target_schema)s, current_schema()), %(target)s, %(target_table)s, 'rebuilding',
  %(owner)s, clock_timestamp()
)
on conflict (name, version) do update
set topics = excluded.topics,
  types = excluded.types,
  sink = excluded.sink,
  target_schema = excluded.target_schema,
  target = excluded.target,
  target_table = excluded.target_table,
  started_at = excluded.started_at
