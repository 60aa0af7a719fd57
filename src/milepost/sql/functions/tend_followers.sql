-- Tell waiting jobs what became of the jobs that they wait for; returns how much was done. A job
-- that waits for nothing any more becomes ready, or scheduled. A part of every take (queue_duties).
--
-- A put does not touch the jobs that its job waits for: that would block their completion until
-- its transaction ends. So they learn it here, after the put has committed (link_followers), and
-- say in job_endings how they ended. The row of a waiting job is locked before its dependencies are
-- changed: two sessions that tell it of two ends do not each see one left. SKIP LOCKED everywhere:
-- nobody waits here, and what is locked now is looked at again by the next take, which comes soon:
-- workers see what is left (queue_look.sql).
create or replace function {schema}.tend_followers(max_count integer default 1000) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  numbers bigint[];
  ended bigint[];
  endings text[];
  concerned bigint[];
  locked bigint[];
  found record;
  done bigint;
  forgotten bigint;
begin
  select array_agg(e.number), array_agg(e.job_id), array_agg(e.ending)
  into numbers, ended, endings
  from (
    select e.number, e.job_id, e.ending from {schema}.job_endings as e
    order by e.number
    limit tend_followers.max_count
    for update skip locked
  ) as e;
  concerned := array(
    (
      select d.job_id from unnest(ended) as e (id)
      join {schema}.job_dependencies as d on d.after_id = e.id
      limit tend_followers.max_count
    )
    union
    (
      select d.job_id from {schema}.job_dependencies as d where not d.is_linked
      order by d.job_id limit tend_followers.max_count
    )
  );
  locked := array(
    select j.id from {schema}.jobs as j
    where j.id = any(concerned) and j.status = 'waiting'
    order by j.id
    for update skip locked
  );
  done := {schema}.settle_dependencies(locked, ended, endings, true);
  select l.ids, l.endings, l.linked into found from {schema}.link_followers(locked) as l;
  done := done + coalesce(found.linked, 0)
    + {schema}.settle_dependencies(locked, found.ids, found.endings, false)
    + {schema}.release_followers(locked)
    + {schema}.forget_dependencies(concerned);
  -- An end stays until all who waited for it have been told.
  delete from {schema}.job_endings as e
  where e.number = any(numbers) and not exists (
    select from {schema}.job_dependencies as d
    where d.after_id = e.job_id and d.is_linked and d.job_id <> all(locked)
  );
  get diagnostics forgotten = row_count;
  return done + forgotten;
end;
$$;
