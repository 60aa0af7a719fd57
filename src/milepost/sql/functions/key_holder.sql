-- The job of a channel that has a unique key, if any: one that waits for others before one that does
-- not, because it comes later. `is_over`: it has completed, and its unique_for has passed.
create or replace function {schema}.key_holder(channel text, unique_key text)
returns table (id bigint, status {schema}.job_status, is_over boolean)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
  (
    select j.id, j.status, false from {schema}.jobs as j
    where j.channel = key_holder.channel collate "C"
      and j.unique_key = key_holder.unique_key collate "C" and j.status = 'waiting'
  )
  union all
  (
    select
      j.id, j.status,
      j.status = 'done' and j.finished_at + j.unique_for <= clock_timestamp()
    from {schema}.jobs as j
    where j.channel = key_holder.channel collate "C"
      and j.unique_key = key_holder.unique_key collate "C" and (
        j.status in ('ready', 'scheduled', 'running')
        or j.status = 'done' and j.unique_for is not null
      )
  )
  limit 1;
end;
$$;
