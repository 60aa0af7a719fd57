-- Create the table into which executors copy a pipeline's rows; it is created again if its columns
-- have changed. Unlogged: rows that are lost in a crash are staged again, and the merge counts the
-- rows it finds.
create or replace function {schema}.create_staging(
  name text, columns text[], types text[]
) returns void
language plpgsql volatile set lock_timeout = '10s' as $$
declare
  wanted constant text := (
    select string_agg(format('%I %s', c, t), ', ' order by n)
    from unnest(columns, types) with ordinality as given (c, t, n)
  );
  found_columns text;
begin
  -- Before the check: a competitor may be creating it now, and if two sessions create the same
  -- table concurrently, "if not exists" fails in the second.
  perform {schema}.await_lock(
    hashtextextended('milepost.staging.{schema}.' || name, 0), 'staging table ' || name
  );
  found_columns := (
    select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
    from pg_attribute as a
    where a.attrelid = to_regclass(format('{schema}.%I', name)) and a.attnum > 0 and not a.attisdropped
  );
  if found_columns = wanted then
    return;
  end if;
  if found_columns is not null then
    execute format('drop table {schema}.%I', name);
  end if;
  execute format(
    'create unlogged table {schema}.%I (%s) with (autovacuum_enabled = off)', name, wanted
  );
end;
$$;
