-- Make dead jobs ready again, with their failures reset, and notify the workers. 'stale': the job
-- is not dead, or an unfinished job of its channel now has its unique key. One subtransaction for
-- each job, so that one such key does not undo the others; in the order of ids, like all functions
-- that change jobs.
create or replace function {schema}.retry(ids bigint[]) returns setof {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  asked bigint;
  found_status {schema}.job_status;
  changed bigint[] := '{}';
begin
  for asked in select distinct a from unnest(retry.ids) as a order by a loop
    select j.status into found_status from {schema}.jobs as j where j.id = asked for update;
    continue when not found or found_status <> 'dead';
    begin
      update {schema}.jobs as j
      set status = 'ready', failures = 0, run_at = clock_timestamp(), finished_at = null
      where j.id = asked;
      changed := changed || asked;
    exception when unique_violation then
      null;  -- its verdict is 'stale'
    end;
  end loop;
  if cardinality(changed) > 0 then
    perform pg_notify(concat({channel}, '_queue'), '');
  end if;
  return query
  select case
      when a.id = any(changed) then 'done'
      when exists (
        select from {schema}.jobs as j
        where j.id = a.id and j.status not in ('done', 'cancelled')
      ) then 'stale'
      else 'gone'
    end::{schema}.verdict
  from unnest(retry.ids) with ordinality as a (id, number)
  order by a.number;
end;
$$;
