-- Lock jobs in the order of their ids, for functions that change them in more than one statement.
create or replace function {schema}.lock_jobs(ids bigint[]) returns void
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  perform from {schema}.jobs as j
  where j.id = any(lock_jobs.ids)
  order by j.id
  for update;
end;
$$;
