-- Put what the given task attempts have staged into the history of their keys.
--
-- A row of the target is what was said about a key for one time, `valid_from`. Its `valid_to` is
-- the next time about which something was said, or null. A deletion is a row too, with a `valid_to`
-- that equals its `valid_from`: without it, a late row before the deletion would not know where it
-- ends. So the result depends only on the last row of each key and time, in the order of the
-- attempts and of their rows, and not on how these came in batches.
--
-- One statement. Rows that a staged one follows are updated, and the staged ones are inserted, or
-- replace what has their key and time: these are never the same rows. What comes next is the
-- nearest of two: the next staged row, and the next row of the target. The latter also tells whether
-- a row of the target lies before the next staged one; else none is looked for. Columns have numbers
-- here, because the names of the output may be any.
create or replace function {schema}.merge_history(
  staging text, target regclass,
  key_columns text[], key_types text[],
  value_columns text[], value_types text[],
  at_column text, at_type text, delete_column text,
  attempts bigint[]
) returns bigint
language plpgsql volatile set work_mem = '64MB' as $$
declare
  given constant text[] := key_columns || value_columns;
  stored constant text[] := given || array['valid_from', 'valid_to'];
  numbers constant text := (
    select string_agg(format('c%s', n), ', ' order by n) from generate_subscripts(given, 1) as n
  );
  key_numbers constant text := (
    select string_agg(format('c%s', n), ', ' order by n) from generate_subscripts(key_columns, 1) as n
  );
  staged_values constant text := (
    select string_agg(format('%I::%s as c%s', c, t, n), ', ' order by n)
    from unnest(given, key_types || value_types) with ordinality as x (c, t, n)
  );
  same_key constant text := (
    select string_agg(format('t.%I = f.c%s', c, n), ' and ')
    from unnest(key_columns) with ordinality as x (c, n)
  );
  stored_list constant text := (
    select string_agg(format('%I', c), ', ' order by n) from unnest(stored) with ordinality as x (c, n)
  );
  conflict_list constant text := (
    select string_agg(format('%I', c), ', ' order by n)
    from unnest(key_columns || 'valid_from'::text) with ordinality as x (c, n)
  );
  written bigint;
begin
  execute format(
    $sql$
    with staged as (
      select distinct on (%2$s, starts_at) %1$s, starts_at, is_deletion
      from (
        select %3$s, %4$I::%5$s as starts_at, %6$s as is_deletion, array_position($1, _attempt) as task, _row
        from {schema}.%7$I
        where _attempt = any($1)
      ) as rows
      order by %2$s, starts_at, task desc, _row desc
    ), followed as (
      select f.*, behind.valid_from as stored_after
      from staged as f
      left join lateral (
        select t.valid_from
        from %8$s as t
        where %9$s and t.valid_from > f.starts_at
        order by t.valid_from
        limit 1
      ) as behind on true
    ), neighbours as (
      select
        f.*, lead(starts_at) over same_key as starts_after,
        -- Whether the row before it is one of the target.
        coalesce(lag(stored_after) over same_key < starts_at, lag(starts_at) over same_key is null) as is_after_stored
      from followed as f
      window same_key as (partition by %2$s order by starts_at)
    ), placed as materialized (
      select
        f.*, before.valid_from as stored_before,
        case when is_deletion then starts_at else least(starts_after, stored_after) end as ends_at
      from neighbours as f
      left join lateral (
        select t.valid_from
        from %8$s as t
        where f.is_after_stored and %9$s and t.valid_from < f.starts_at
        order by t.valid_from desc
        limit 1
      ) as before on true
    ), ended as (
      update %8$s as t
      set valid_to = f.starts_at
      from placed as f
      where %9$s and t.valid_from = f.stored_before
        and t.valid_to is distinct from t.valid_from  -- not a deletion
        and t.valid_to is distinct from f.starts_at
    )
    insert into %8$s as t (%10$s)
    select %1$s, starts_at, ends_at
    from placed
    on conflict (%11$s) do update
    set %12$s
    -- By their bytes: values that are equal may still differ (0.0 and -0.0).
    where row(%13$s)::record operator(pg_catalog.*<>) row(%14$s)::record
    $sql$,
    numbers, key_numbers, staged_values, at_column, at_type,
    coalesce('coalesce(' || quote_ident(delete_column) || ', false)', 'false'),
    staging, target, same_key, stored_list, conflict_list,
    (select string_agg(format('%I = excluded.%1$I', c), ', ') from unnest(stored) as c),
    (select string_agg(format('t.%I', c), ', ' order by n) from unnest(stored) with ordinality as x (c, n)),
    (select string_agg(format('excluded.%I', c), ', ' order by n) from unnest(stored) with ordinality as x (c, n))
  ) using attempts;
  get diagnostics written = row_count;
  return written;
end;
$$;
