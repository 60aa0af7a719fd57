-- Whether what has this name and version in checkpoints and dead_letters is a pipeline. Part of
-- their policies: a role that runs pipelines changes no processor's. A processor of that name and
-- version wins, because that role may call a pipeline anything.
--
-- With the privileges of the owner: that role does not see processors.
create or replace function {schema}.is_pipeline(name text, version integer) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return exists (
    select from {schema}.pipelines as p
    where p.name = is_pipeline.name and p.version = is_pipeline.version
  ) and not exists (
    select from {schema}.processors as p
    where p.name = is_pipeline.name and p.version = is_pipeline.version
  );
end;
$$;
