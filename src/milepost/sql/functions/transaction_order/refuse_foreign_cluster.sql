-- Transaction ids are only valid in their own cluster. In another one, old messages may be
-- unreadable and new ones sort before the checkpoints, so both are refused.
create or replace function {schema}.refuse_foreign_cluster() returns void
language plpgsql volatile as $$
begin
  if {schema}.is_foreign() then
    raise exception 'the log in schema {schema} was restored from another cluster, whose transaction ids order it'
      using errcode = 'MP003',
      hint = 'Nothing is lost. Run: milepost rebase';
  end if;
end;
$$;
