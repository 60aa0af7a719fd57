-- Called once per statement that puts jobs: a hint for waiting workers. NOTIFY serialises commits,
-- so only one of the transactions in flight sends it: the one that gets the first lock. The others
-- hold a shared lock that workers can see: a worker that finds one of the two locks taken polls
-- again soon (queries/queue_look.sql, docs/decisions/0005, 0008). A put never waits for them:
-- anybody who may connect can take them. One that gets neither notifies, too.
create or replace function {schema}.queue_wake() returns trigger
language plpgsql volatile as $$
declare
  key constant bigint := pg_catalog.int8um(tg_relid::bigint);
  done pg_catalog.text;
begin
  if pg_catalog.texteq(pg_catalog.current_setting('milepost.notify', true), 'off') then
    return null;
  end if;
  if pg_catalog.pg_try_advisory_xact_lock(key)
    or not pg_catalog.pg_try_advisory_xact_lock_shared(pg_catalog.int8mi(key, 4294967296))
  then
    done := pg_catalog.pg_notify(pg_catalog.concat({channel}, '_queue'), '');
  end if;
  return null;
end;
$$;
