-- As merge_upsert, and where `delete_column` is true, delete the row of the key instead.
--
-- A key that occurs twice is refused in every case: its rows have no order, and whether the deletion
-- comes first decides. PostgreSQL refuses this by itself only if it changes a row twice, so not if
-- one of the two deletes a row that is not there; the same holds for a null in the key.
create or replace function {schema}.merge_upsert_or_delete(
  staging text, target regclass,
  key_columns text[], key_types text[],
  set_columns text[], set_types text[],
  delete_column text, attempts bigint[]
) returns bigint
language plpgsql volatile set work_mem = '64MB' as $$
declare
  key_column text;
  is_found boolean;
  deleted bigint;
begin
  foreach key_column in array key_columns loop
    execute format('select exists (select from {schema}.%I where _attempt = any($1) and %I is null)', staging, key_column)
    into is_found using attempts;
    if is_found then
      raise exception 'null value in column "%" of the key', key_column
        using errcode = 'not_null_violation', column = key_column;
    end if;
  end loop;
  if {schema}.duplicate_key(staging, key_columns, attempts) is not null then
    raise exception 'a key occurs twice' using errcode = 'cardinality_violation';
  end if;
  -- What is deleted leaves staging too, so that the rest is an upsert. If the transaction is rolled
  -- back, it is there again.
  execute format(
    'with gone as (delete from {schema}.%I where _attempt = any($1) and %I returning %s) delete from %s as t using gone where %s',
    staging, delete_column,
    (select string_agg(format('%I::%s as %1$I', c, k), ', ') from unnest(key_columns, key_types) as x (c, k)),
    target,
    (select string_agg(format('t.%I = gone.%1$I', c), ' and ') from unnest(key_columns) as c)
  ) using attempts;
  get diagnostics deleted = row_count;
  return deleted + {schema}.merge_upsert(
    staging, target, key_columns, key_types, set_columns, set_types,
    array[]::text[], array[]::text[], attempts
  );
end;
$$;
