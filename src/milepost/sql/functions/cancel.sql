-- Cancel jobs: a waiting (or dead) job is finished immediately; a running one is asked to stop
-- ('cancelled'). Its worker learns it from the notification, or from a look soon after. All are locked first, in the order of their ids.
create or replace function {schema}.cancel(ids bigint[]) returns setof {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  finished bigint[];
  asked_to_stop bigint[];
begin
  perform {schema}.lock_jobs(cancel.ids);
  with kept as (
    update {schema}.jobs as j
    set status = 'cancelled', is_cancelled = true,
      finished_at = clock_timestamp(), kept_until = clock_timestamp() + j.keep_for
    where j.id = any(cancel.ids) and j.status in ('ready', 'scheduled', 'waiting', 'dead')
      and j.keep_for is not null
    returning j.id
  ),
  deleted as (
    delete from {schema}.jobs as j
    where j.id = any(cancel.ids) and j.status in ('ready', 'scheduled', 'waiting', 'dead')
      and j.keep_for is null
    returning j.id
  )
  select array(select id from kept union all select id from deleted) into finished;
  perform {schema}.note_removals(finished, 'cancelled');
  with asked as (
    update {schema}.jobs as j
    set is_cancelled = true
    where j.id = any(cancel.ids) and j.locked_until is not null
    returning j.id
  )
  select array(select id from asked) into asked_to_stop;
  if cardinality(asked_to_stop) > 0 then
    -- With the ids, if they fit into a notification.
    perform pg_notify(concat({channel}, '_queue'), concat('cancel ', case
      when cardinality(asked_to_stop) <= 200 then array_to_string(asked_to_stop, ' ')
    end));
  end if;
  return query
  select case
      when a.id = any(finished) then 'done'
      when a.id = any(asked_to_stop) then 'cancelled'
      else 'gone'
    end::{schema}.verdict
  from unnest(cancel.ids) with ordinality as a (id, number)
  order by a.number;
end;
$$;
