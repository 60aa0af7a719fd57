-- Insert or update by key what the given task attempts have staged: `set_columns` are replaced,
-- `add_columns` are increased.
--
-- With columns to set, a key that comes twice has no right answer, and PostgreSQL itself refuses to
-- touch a row twice (cardinality_violation). With columns to add only, a key's rows are summed.
-- A null adds nothing.
create or replace function {schema}.merge_upsert(
  staging text, target regclass,
  key_columns text[], key_types text[],
  set_columns text[], set_types text[],
  add_columns text[], add_types text[],
  attempts bigint[]
) returns bigint
language plpgsql volatile set work_mem = '64MB' as $$
declare
  is_summed constant boolean := cardinality(set_columns) = 0;
  key_list constant text := (
    select string_agg(format('%I', c), ', ' order by n) from unnest(key_columns) with ordinality as x (c, n)
  );
  column_list constant text := (
    select string_agg(format('%I', c), ', ' order by n)
    from unnest(key_columns || set_columns || add_columns) with ordinality as x (c, n)
  );
  key_values constant text := (
    select string_agg(format('%I::%s', c, t), ', ' order by n)
    from unnest(key_columns, key_types) with ordinality as x (c, t, n)
  );
  set_values constant text := (
    select string_agg(format(', %I::%s', c, t), '' order by n)
    from unnest(set_columns, set_types) with ordinality as x (c, t, n)
  );
  add_values constant text := (
    select string_agg(format(case when is_summed then ', sum(%I)::%s' else ', %I::%s' end, c, t), '' order by n)
    from unnest(add_columns, add_types) with ordinality as x (c, t, n)
  );
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
  execute format('insert into %s as t (%s)', target, column_list)
    || ' select ' || key_values || coalesce(set_values, '') || coalesce(add_values, '')
    || format(' from {schema}.%I where _attempt = any($1)', staging)
    || case when is_summed then ' group by ' || key_list else '' end
    || format(' on conflict (%s) do ', key_list)
    || coalesce('update set ' || updates, 'nothing')
  using attempts;
  get diagnostics written = row_count;
  return written;
end;
$$;
