-- Let jobs know that others wait for them. Given are jobs that wait, whose rows the caller has
-- locked; returned are the jobs among those they wait for that have ended already, and how, and how
-- many of the others were told. A row is locked, so that it does not end between the look and the
-- note: whoever ends it afterwards finds has_followers. SKIP LOCKED: it may be ending now, and then
-- nobody is notified. So workers look again soon while a job is not linked (queue_look.sql).
create or replace function {schema}.link_followers(
  followers bigint[], out ids bigint[], out endings text[], out linked bigint
)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  asked constant bigint[] := array(
    select distinct d.after_id from {schema}.job_dependencies as d
    where d.job_id = any(link_followers.followers) and not d.is_linked
  );
  found_ids bigint[];
  found_statuses text[];
begin
  if cardinality(asked) = 0 then
    return;
  end if;
  select array_agg(p.id), array_agg(p.status::text) into found_ids, found_statuses
  from (
    select j.id, j.status from {schema}.jobs as j
    where j.id = any(asked)
    order by j.id
    for update skip locked
  ) as p;
  update {schema}.jobs as j
  set has_followers = true
  from unnest(found_ids, found_statuses) as p (id, status)
  where j.id = p.id and p.status not in ('done', 'cancelled') and not j.has_followers;
  -- One that died is known to them from here on, and may be retried.
  update {schema}.job_dependencies as d
  set is_linked = true
  from unnest(found_ids, found_statuses) as p (id, status)
  where d.after_id = p.id and d.job_id = any(link_followers.followers) and not d.is_linked
    and p.status not in ('done', 'cancelled')
    and (p.status <> 'dead' or d.on_dead = 'wait');
  get diagnostics linked = row_count;
  select array_agg(e.id), array_agg(e.ending) into link_followers.ids, link_followers.endings
  from (
    select p.id, p.status as ending
    from unnest(found_ids, found_statuses) as p (id, status)
    where p.status in ('done', 'cancelled', 'dead')
    union all
    -- What is gone has completed, as far as anybody can tell.
    select a.id, 'done' from unnest(asked) as a (id)
    where not exists (select from {schema}.jobs as j where j.id = a.id)
  ) as e;
end;
$$;
