-- Make a name show one version of a pipeline's table. The view is replaced in place if possible,
-- which keeps its dependent objects; if the columns differ, it is created again. In both cases it
-- keeps its privileges and options. Of a history, the deletions are not shown (see mark_history).
create or replace function {schema}.show_target(
  target_schema text, view_name text, table_name text
) returns void
language plpgsql volatile as $$
declare
  is_history constant boolean := exists (
    select
    from pg_constraint as c
    where c.conrelid = to_regclass(format('%I.%I', target_schema, table_name))
      and c.conname = 'milepost_history'
  );
  view_is constant text := format(
    'view %1$I.%2$I as select * from %1$I.%3$I', target_schema, view_name, table_name
  ) || case when is_history then ' where valid_to is distinct from valid_from' else '' end;
  settings constant text[] := {schema}.view_settings(target_schema, view_name);
begin
  begin
    execute 'create or replace ' || view_is;
  exception
    when invalid_table_definition then
      execute format('drop view %I.%I', target_schema, view_name);
      execute 'create ' || view_is;
  end;
  perform {schema}.restore_view(settings);
end;
$$;
