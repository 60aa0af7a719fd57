-- Mark a table as a history: the view over it does not show the deletions, which are rows that are
-- valid at no time (see merge_history). The mark is a constraint, so that a dump keeps it.
create or replace function {schema}.mark_history(target_schema text, table_name text) returns void
language plpgsql volatile as $$
begin
  execute format(
    'alter table %I.%I add constraint milepost_history check (valid_to >= valid_from)',
    target_schema, table_name
  );
end;
$$;
