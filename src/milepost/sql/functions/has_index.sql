-- Whether the log has one of the indexes that are created only on request, complete.
create or replace function {schema}.has_index(name text) returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from pg_catalog.pg_index as i
    where i.indexrelid = pg_catalog.to_regclass(pg_catalog.concat('{schema}.', name))
      and i.indisvalid
  );
end;
$$;
