-- Insert what the given task attempts have staged into a table.
create or replace function {schema}.merge_append(
  staging text, target regclass, columns text[], types text[], attempts bigint[]
) returns bigint
language plpgsql volatile as $$
declare
  written bigint;
begin
  execute format(
    'insert into %s (%s) select %s from {schema}.%I where _attempt = any($1)',
    target,
    (select string_agg(format('%I', c), ', ' order by n) from unnest(columns) with ordinality as x (c, n)),
    (select string_agg(format('%I::%s', c, t), ', ' order by n)
      from unnest(columns, types) with ordinality as x (c, t, n)),
    staging
  ) using attempts;
  get diagnostics written = row_count;
  return written;
end;
$$;
