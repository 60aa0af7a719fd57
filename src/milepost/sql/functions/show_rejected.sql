-- Show the rows that the active version of a pipeline has set aside. A version that is not active
-- leaves the view as it is. If a long transaction reads the view, it stays as it is until the driver
-- starts again: no reader waits behind this for long.
create or replace function {schema}.show_rejected(
  pipeline text, version integer, target_schema text, view_name text, table_name text
) returns void
language plpgsql volatile set lock_timeout = '2s' as $$
#variable_conflict use_column
begin
  -- Locked, so that no swap happens meanwhile.
  perform from {schema}.pipelines as p
  where p.name = show_rejected.pipeline and p.version = show_rejected.version and p.is_active
  for update;
  if found then
    perform {schema}.show_target(
      show_rejected.target_schema, show_rejected.view_name, show_rejected.table_name
    );
  end if;
exception
  when lock_not_available then
    null;
end;
$$;
