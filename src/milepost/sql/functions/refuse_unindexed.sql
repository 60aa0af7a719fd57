-- An error if the log lacks one of the optional indexes: without it, each call would scan the whole
-- log, or could not be exact. `what` is what was asked for, `option` the option of migrate.
create or replace function {schema}.refuse_unindexed(name text, what text, option text) returns void
language plpgsql stable as $$
begin
  if not {schema}.has_index(name) then
    raise exception '% needs the index % of the log in schema {schema}, which does not exist or is not complete',
      what, name
      using errcode = 'MP011',
      hint = format('Nothing was written. Run once, also while the log is in use: milepost migrate %s', option);
  end if;
end;
$$;
