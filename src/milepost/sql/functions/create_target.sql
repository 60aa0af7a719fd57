-- Create a pipeline's table. If rows are updated in place, a part of each page is left free: no
-- index contains the changing columns, so that an update stays within its page (HOT).
create or replace function {schema}.create_target(
  target_schema text, table_name text, columns text[], types text[], key_columns text[]
) returns void
language plpgsql volatile as $$
declare
  key_list constant text := (
    select string_agg(format('%I', c), ', ' order by n) from unnest(key_columns) with ordinality as x (c, n)
  );
begin
  execute format(
    'create table %I.%I (%s%s)%s',
    target_schema, table_name,
    (select string_agg(format('%I %s', c, t), ', ' order by n)
      from unnest(columns, types) with ordinality as x (c, t, n)),
    coalesce(', primary key (' || key_list || ')', ''),
    case when key_list is null then '' else ' with (fillfactor = 70)' end
  );
end;
$$;
