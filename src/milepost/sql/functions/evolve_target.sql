-- Add columns to a pipeline's table and change the types of others, in place. Nothing else changes:
-- drivers that do not know of it continue to write.
--
-- A new column takes a moment. A new type rewrites the table, unless PostgreSQL knows that the
-- stored values stay as they are (varchar to text, numeric with more digits before the point).
-- Readers wait meanwhile, as they do behind a lock that is not granted: hence the short lock
-- timeout. The view is locked before the table, as readers do. If a type changes, the view is
-- created again with its privileges and options, because PostgreSQL refuses to change the type of
-- a column that a view shows.
create or replace function {schema}.evolve_target(
  target_schema text, table_name text, view_name text,
  added_columns text[], added_types text[], widened_columns text[], widened_types text[]
) returns void
language plpgsql volatile set lock_timeout = '2s' as $$
declare
  is_shown constant boolean := exists (
    select
    from pg_rewrite as rule
    join pg_depend as d on d.classid = 'pg_rewrite'::regclass and d.objid = rule.oid
    where rule.ev_class = to_regclass(format('%I.%I', target_schema, view_name))
      and d.refclassid = 'pg_class'::regclass
      and d.refobjid = to_regclass(format('%I.%I', target_schema, table_name))
  );
  is_rewritten constant boolean := cardinality(widened_columns) > 0;
  settings text[] := array[]::text[];
begin
  if is_shown then
    execute format('lock table %I.%I in access exclusive mode', target_schema, view_name);
  end if;
  if is_shown and is_rewritten then
    settings := {schema}.view_settings(target_schema, view_name);
    execute format('drop view %I.%I', target_schema, view_name);
  end if;
  execute format('alter table %I.%I ', target_schema, table_name) || (
    select string_agg(change, ', ')
    from (
      select format('add column %I %s', c, t) as change
      from unnest(added_columns, added_types) as added (c, t)
      union all
      select format('alter column %I type %s', c, t)
      from unnest(widened_columns, widened_types) as widened (c, t)
    ) as changes
  );
  if is_shown then
    perform {schema}.show_target(target_schema, view_name, table_name);
    perform {schema}.restore_view(settings);
  end if;
end;
$$;
