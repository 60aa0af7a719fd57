-- Complete one job, as complete() does. Workers whose handlers have a transaction complete their jobs
-- one by one, and for one job complete() costs several times as much as its DELETE: for its arrays,
-- and for the settings that make it lock many jobs in order. Jobs that need more than to be deleted
-- are left to it. The one setting prevents a plan that reads the whole table, made while that was
-- small.
create or replace function {schema}.complete_one(
  id bigint, attempt integer, token bigint default null, result bytea default null
) returns {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
begin
  delete from {schema}.jobs as j
  where j.id = complete_one.id and j.attempt = complete_one.attempt
    and j.token is not distinct from complete_one.token
    and j.locked_until is not null and j.keep_for is null and not j.has_followers;
  if found then
    return 'done';
  end if;
  return (
    select verdict
    from {schema}.complete(
      array[complete_one.id], array[complete_one.attempt], array[complete_one.result],
      array[complete_one.token]
    ) as verdict
  );
end;
$$;
