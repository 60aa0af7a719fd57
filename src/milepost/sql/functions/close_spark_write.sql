-- Forget a batch write that has ended, with its staging table. Not a stream: its row is the fence.
-- With the privileges of the owner, to whom the table belongs.
create or replace function {schema}.close_spark_write(query uuid) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '10s' as $$
#variable_conflict use_column
declare
  old_staging text;
begin
  perform {schema}.appending_role(close_spark_write.query);
  delete from {schema}.spark_writes as w
  where w.query = close_spark_write.query and not w.is_stream
  returning w.staging into old_staging;
  if found then
    execute format('drop table if exists {schema}.%I', old_staging);
  end if;
end;
$$;
