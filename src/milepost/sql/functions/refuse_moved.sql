-- After a restore, a copy or a failover, nothing is read or appended until rebase() has made sure that
-- no position is given twice.
create or replace function {schema}.refuse_moved() returns void
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare
  how constant text := {schema}.moved_from();
begin
  if how is not null then
    raise exception 'the log in schema {schema} %', how
      using errcode = 'MP003',
      hint = 'Newer messages may be missing here, and their positions must not be given again. Run: milepost rebase'
        || case when how like '%promoted%'
          then '. Run it on the remaining server, after the old one was shut down.' else '' end;
  end if;
end;
$$;
