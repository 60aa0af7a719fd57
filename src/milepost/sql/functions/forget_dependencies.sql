-- Delete what was noted for jobs that do not wait any more: they were cancelled or deleted. Returns
-- how many rows. SKIP LOCKED: another session does the same.
create or replace function {schema}.forget_dependencies(followers bigint[]) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  forgotten bigint;
begin
  delete from {schema}.job_dependencies as d
  using (
    select d.job_id, d.after_id from {schema}.job_dependencies as d
    where d.job_id = any(forget_dependencies.followers) and not exists (
      select from {schema}.jobs as j where j.id = d.job_id and j.status = 'waiting'
    )
    for update skip locked
  ) as old
  where d.job_id = old.job_id and d.after_id = old.after_id;
  get diagnostics forgotten = row_count;
  return forgotten;
end;
$$;
