-- Make the table into which executors copy a pipeline's rows; anew if its columns have changed.
-- Unlogged: what is lost in a crash is staged again, and the merge counts what it finds.
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
  -- Before looking: a competitor may be making it at this moment, and of two who make one table at
  -- once, "if not exists" fails in the second.
  perform pg_advisory_xact_lock(hashtextextended('milepost.staging.{schema}.' || name, 0));
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
