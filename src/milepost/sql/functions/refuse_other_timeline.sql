-- Nobody reads or appends after a failover before rebase() has seen to it that no position is given
-- twice.
create or replace function {schema}.refuse_other_timeline() returns void
language plpgsql volatile as $$
begin
  if {schema}.is_other_timeline() then
    raise exception 'the server was promoted or recovered to a point in time (timeline %): the newest messages in schema {schema} may be lost',
      {schema}.current_timeline()
      using errcode = 'MP003',
      hint = 'So that their positions are not given to others, run: milepost rebase. Run it on the server that stays, after the old one is off.';
  end if;
end;
$$;
