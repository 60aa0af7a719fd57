-- Ask the running processor to handle dead letters again. One letter of a parked key stands for all
-- of that key, in order. Returns how many will be retried.
--
-- Keys are locked in one order, so that two operators never deadlock.
create or replace function {schema}.request_retry(ids bigint[]) returns bigint
language plpgsql volatile as $$
#variable_conflict use_column
declare
  keys bigint[];
begin
  select coalesce(array_agg(distinct d.parked_id) filter (where d.parked_id is not null), '{}')
  into keys
  from {schema}.dead_letters as d
  where d.id = any(request_retry.ids);
  perform from {schema}.parked_keys as k
  where k.id = any(keys)
  order by k.digest
  for no key update;
  update {schema}.parked_keys as k
  set retry_requested_at = coalesce(k.retry_requested_at, clock_timestamp())
  where k.id = any(keys);
  update {schema}.dead_letters as d
  set retry_requested_at = clock_timestamp()
  where d.id = any(request_retry.ids) and d.parked_id is null;
  return (
    select count(*) from {schema}.dead_letters as d
    where d.parked_id = any(keys) or (d.id = any(request_retry.ids) and d.parked_id is null)
  );
end;
$$;
