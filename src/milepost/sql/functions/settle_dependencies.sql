-- Apply the ends of jobs to those that wait for them, and whose rows the caller has locked; returns
-- how many were told. See tend_followers().
--
--               it completes  it dies        it is dropped while dead  it is cancelled or purged
-- on_dead wait:   go on         wait           go on                     be cancelled
-- on_dead cancel: go on         be cancelled   go on                     be cancelled
-- on_dead run:    go on         go on          go on                     go on
create or replace function {schema}.settle_dependencies(
  followers bigint[], ended bigint[], endings text[], is_linked boolean
) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  told integer;
  cancelled bigint[];
begin
  if coalesce(cardinality(settle_dependencies.ended), 0) = 0 then
    return 0;
  end if;
  with ends as materialized (
    select d.job_id, d.after_id, d.on_dead, e.ending
    from unnest(settle_dependencies.ended, settle_dependencies.endings) as e (id, ending)
    join {schema}.job_dependencies as d on d.after_id = e.id
    where d.is_linked = settle_dependencies.is_linked
      and d.job_id = any(settle_dependencies.followers)
  ),
  settled as (
    delete from {schema}.job_dependencies as d using ends
    where d.job_id = ends.job_id and d.after_id = ends.after_id
      and (ends.ending <> 'dead' or ends.on_dead <> 'wait')
  )
  select
    count(*),
    array_agg(distinct ends.job_id) filter (
      where ends.ending = 'cancelled' and ends.on_dead <> 'run'
        or ends.ending = 'dead' and ends.on_dead = 'cancel'
    )
  into told, cancelled
  from ends;
  if cardinality(cancelled) > 0 then
    perform {schema}.cancel(cancelled);
  end if;
  return told;
end;
$$;
