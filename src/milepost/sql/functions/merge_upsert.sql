-- Insert or update by key what the given task attempts have staged: `set_columns` are replaced,
-- `add_columns` are increased.
--
-- With columns to set, a key that occurs twice has no defined result, and PostgreSQL itself refuses
-- to change a row twice (cardinality_violation). With only columns to add, the rows of a key are
-- summed. A null adds nothing.
--
-- MERGE can join, while INSERT ... ON CONFLICT descends the index and locks the row for each key.
-- But MERGE fails if another session inserts such a key concurrently: then INSERT ... ON CONFLICT
-- is used.
create or replace function {schema}.merge_upsert(
  staging text, target regclass,
  key_columns text[], key_types text[],
  set_columns text[], set_types text[],
  add_columns text[], add_types text[],
  attempts bigint[]
) returns bigint
language plpgsql volatile set work_mem = '64MB' set enable_nestloop = on as $$
declare
  is_summed constant boolean := cardinality(set_columns) = 0;
  all_columns constant text[] := key_columns || set_columns || add_columns;
  key_list constant text := (
    select string_agg(format('%I', c), ', ' order by n) from unnest(key_columns) with ordinality as x (c, n)
  );
  column_list constant text := (
    select string_agg(format('%I', c), ', ' order by n) from unnest(all_columns) with ordinality as x (c, n)
  );
  staged_values constant text := (
    select string_agg(
      format(case when is_summed and c = any(add_columns) then 'sum(%I)::%s as %1$I' else '%I::%s as %1$I' end, c, t),
      ', ' order by n
    )
    from unnest(all_columns, key_types || set_types || add_types) with ordinality as x (c, t, n)
  );
  staged constant text := format('select %s from {schema}.%I where _attempt = any($1)', staged_values, staging)
    || case when is_summed then ' group by ' || key_list else '' end;
  -- With the name `excluded`, which both statements have.
  updates constant text := (
    select string_agg(change, ', ')
    from (
      select format('%I = excluded.%1$I', c) as change from unnest(set_columns) as c
      union all
      select format('%I = coalesce(t.%1$I + excluded.%1$I, t.%1$I, excluded.%1$I)', c)
      from unnest(add_columns) as c
    ) as changes
  );
  written bigint;
begin
  -- Staging has no statistics, so the planner assumes that it is small. If the target is not much
  -- larger, reading all of it is cheaper than one index descent per row.
  if pg_relation_size(target) between 1 and 8 * pg_relation_size(format('{schema}.%I', staging)::regclass) then
    perform set_config('enable_nestloop', 'off', true);  -- until this function ends
  end if;
  execute format('merge into %s as t using (%s) as excluded on ', target, staged)
    || (select string_agg(format('t.%I = excluded.%1$I', c), ' and ') from unnest(key_columns) as c)
    || coalesce(' when matched then update set ' || updates, '')
    || format(' when not matched then insert (%s) values (', column_list)
    || (select string_agg(format('excluded.%I', c), ', ' order by n) from unnest(all_columns) with ordinality as x (c, n))
    || ')'
  using attempts;
  get diagnostics written = row_count;
  return written;
exception
  when unique_violation then
    execute format('insert into %s as t (%s) %s on conflict (%s) do ', target, column_list, staged, key_list)
      || coalesce('update set ' || updates, 'nothing')
    using attempts;
    get diagnostics written = row_count;
    return written;
end;
$$;
