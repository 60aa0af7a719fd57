-- Release one waiting job that has a unique key; see release_followers(). If another job of its
-- channel has the key and is not finished, it waits for that one as well. 0, if a put with the same
-- key is in flight: it must not make takers wait. Then the job waits for an id that no job has, so
-- that the next take finds it and tries again.
create or replace function {schema}.release_keyed(id bigint) returns integer
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
set lock_timeout = '5ms'
as $$
#variable_conflict use_column
declare
  holder record;
begin
  select h.id, h.status into holder
  from {schema}.jobs as j
  join {schema}.jobs as h on h.channel = j.channel and h.unique_key = j.unique_key and (
    h.status in ('ready', 'scheduled', 'running') or h.status = 'done' and h.unique_for is not null
  )
  where j.id = release_keyed.id;
  if found and holder.status <> 'done' then
    insert into {schema}.job_dependencies (job_id, after_id, on_dead)
    values (release_keyed.id, holder.id, 'run')
    on conflict do nothing;
    return 1;
  end if;
  -- It was accepted before the other one completed: it takes the key over.
  update {schema}.jobs as h set unique_for = null where h.id = holder.id;
  update {schema}.jobs as j
  set status = case when j.run_at > clock_timestamp() then 'scheduled' else 'ready' end
      ::{schema}.job_status,
    run_at = greatest(j.run_at, clock_timestamp())
  where j.id = release_keyed.id;
  return 1;
exception when unique_violation or lock_not_available then
  insert into {schema}.job_dependencies (job_id, after_id, on_dead)
  values (release_keyed.id, 0, 'run')
  on conflict do nothing;
  return 0;
end;
$$;
