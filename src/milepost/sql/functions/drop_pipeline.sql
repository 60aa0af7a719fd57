-- Drop a version of a pipeline: its table, its staging, its checkpoint, its dead letters and rows that
-- were set aside, its row. Returns dropped,
-- active (the active version is never dropped) or missing. Locks in the order of a swap. A driver
-- that fills the version finds its checkpoint missing.
create or replace function {schema}.drop_pipeline(
  pipeline text, version integer, staging text
) returns text
language plpgsql volatile set lock_timeout = '10s' as $$
#variable_conflict use_column
declare
  going {schema}.pipelines;
begin
  perform from {schema}.checkpoints as c
  where c.processor = drop_pipeline.pipeline and c.version = drop_pipeline.version and c.segment = 0
  for update;
  select p.* into going
  from {schema}.pipelines as p
  where p.name = drop_pipeline.pipeline and p.version = drop_pipeline.version
  for update;
  if not found then
    return 'missing';
  elsif going.is_active then
    return 'active';
  end if;
  if going.target_table is not null then
    execute format('drop table if exists %I.%I', going.target_schema, going.target_table);
  end if;
  perform {schema}.drop_rejected(
    coalesce(going.target_schema, '{schema}'::regnamespace::text), going.rejected,
    drop_pipeline.version
  );
  -- There may be several: a batch is staged while the previous one is merged.
  execute format(
    'drop table if exists {schema}.%I, {schema}.%I', staging, staging || '_b'
  );
  delete from {schema}.checkpoints as c
  where c.processor = drop_pipeline.pipeline and c.version = drop_pipeline.version and c.segment = 0;
  delete from {schema}.dead_letters as d
  where d.processor = drop_pipeline.pipeline and d.version = drop_pipeline.version;
  delete from {schema}.pipeline_expectations as e
  where e.pipeline = drop_pipeline.pipeline and e.version = drop_pipeline.version;
  delete from {schema}.pipelines as p
  where p.name = drop_pipeline.pipeline and p.version = drop_pipeline.version;
  return 'dropped';
end;
$$;
