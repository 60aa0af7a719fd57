-- Empty a staging table, unless it is in use: a task that Spark has given up may still be copying,
-- and nothing waits for it. Returns whether the table is empty now.
create or replace function {schema}.clean_staging(name text) returns boolean
language plpgsql volatile as $$
begin
  if to_regclass(format('{schema}.%I', name)) is null then
    return true;
  end if;
  execute format('lock table {schema}.%I in access exclusive mode nowait', name);
  execute format('truncate {schema}.%I', name);
  return true;
exception
  when lock_not_available or undefined_table then
    return false;
end;
$$;
