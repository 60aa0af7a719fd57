-- After a failover, nothing is read or appended until rebase() has made sure that no position is
-- given twice.
create or replace function {schema}.refuse_other_timeline() returns void
language plpgsql volatile as $$
begin
  if {schema}.is_other_timeline() then
    raise exception 'the server was promoted or recovered to a point in time (timeline %): the newest messages in schema {schema} may be lost',
      {schema}.current_timeline()
      using errcode = 'MP003',
      hint = 'To prevent their positions from being used again, run: milepost rebase. Run it on the remaining server, after the old one was shut down.';
  end if;
end;
$$;
