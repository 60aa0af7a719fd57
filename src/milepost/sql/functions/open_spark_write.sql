-- The staging table into which the tasks of a write from Spark copy their rows. Called by every task
-- that has rows. The first call registers the write and creates the table, and drops the tables that
-- drivers have left behind.
--
-- With the privileges of the owner: a role that appends may not create tables. It gets one with these
-- columns, under a name that it cannot choose, and at most 100 of them.
create or replace function {schema}.open_spark_write(query uuid, is_stream boolean) returns text
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '10s' as $$
#variable_conflict use_column
declare
  caller constant name := {schema}.appending_role(open_spark_write.query);
  staging constant text := 'staging_spark_' || replace(open_spark_write.query::text, '-', '');
begin
  if to_regclass(format('{schema}.%I', staging)) is null and (
    select count(*) from {schema}.spark_writes as w
    where w.role = caller and to_regclass(format('{schema}.%I', w.staging)) is not null
  ) >= 100 then
    raise exception 'role % has 100 writes from Spark, each with a staging table', caller
      using errcode = 'configuration_limit_exceeded',
        hint = 'Nothing was written. The table of a driver that was killed is dropped after a week; '
          'close_spark_write() drops that of a batch write now. Or write with another role.';
  end if;
  insert into {schema}.spark_writes (query, is_stream, staging, role)
  values (open_spark_write.query, open_spark_write.is_stream, staging, caller)
  on conflict (query) do nothing;
  if found then
    perform {schema}.drop_old_stagings();
  end if;
  -- Not at each call: all tasks would wait for one another. Before the table is created: see
  -- drop_old_stagings.
  update {schema}.spark_writes as w
  set used_at = clock_timestamp()
  where w.query = open_spark_write.query and w.used_at < clock_timestamp() - interval '1 hour';
  perform {schema}.create_staging(
    staging,
    array['_attempt', '_row', 'type', 'data', 'key', 'metadata', 'topic'],
    array['bigint', 'bigint', 'text', 'text', 'text', 'text', 'text']
  );
  if not has_table_privilege(caller, format('{schema}.%I', staging), 'insert') then
    execute format('grant select, insert, truncate on {schema}.%I to %I', staging, caller);
  end if;
  return staging;
end;
$$;
