-- Make waiting jobs ready, or scheduled, that wait for nothing any more, and whose rows the caller
-- has locked; returns how many, less those that wait for another try: settle_dependencies() counts
-- these each time. Their turn counts from now: they were not due before.
create or replace function {schema}.release_followers(followers bigint[]) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  free constant bigint[] := array(
    select j.id from {schema}.jobs as j
    where j.id = any(release_followers.followers) and j.status = 'waiting'
      and not exists (select from {schema}.job_dependencies as d where d.job_id = j.id)
    order by j.id
  );
  keyed bigint;
  keyed_released bigint := 0;
  keyed_count bigint := 0;
  released bigint;
begin
  if cardinality(free) = 0 then
    return 0;
  end if;
  update {schema}.jobs as j
  set status = case when j.run_at > clock_timestamp() then 'scheduled' else 'ready' end
      ::{schema}.job_status,
    run_at = greatest(j.run_at, clock_timestamp())
  where j.id = any(free) and j.unique_key is null;
  get diagnostics released = row_count;
  for keyed in
    select j.id from {schema}.jobs as j where j.id = any(free) and j.unique_key is not null
  loop
    keyed_released := keyed_released + {schema}.release_keyed(keyed);
    keyed_count := keyed_count + 1;
  end loop;
  if released + keyed_released > 0 then
    perform pg_notify(concat({channel}, '_queue'), '');
  end if;
  return released + keyed_released - (keyed_count - keyed_released);
end;
$$;
