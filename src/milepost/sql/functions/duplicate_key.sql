-- A key that occurs more than once in what the given attempts have staged, as text.
create or replace function {schema}.duplicate_key(
  staging text, key_columns text[], attempts bigint[]
) returns text
language plpgsql volatile as $$
declare
  key_list constant text := (
    select string_agg(format('%I', c), ', ' order by n) from unnest(key_columns) with ordinality as x (c, n)
  );
  found_key text;
begin
  execute format(
    'select row(%1$s)::text from {schema}.%2$I where _attempt = any($1) group by %1$s having count(*) > 1 limit 1',
    key_list, staging
  ) into found_key using attempts;
  return found_key;
end;
$$;
