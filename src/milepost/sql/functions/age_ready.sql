-- In channels with an ageing: move ready jobs that have waited for that long one priority up, once
-- in each such period; returns how many. So no job waits for ever behind more urgent ones. At most
-- `max_count` of each priority, the oldest first, and from the most urgent priority on, so that no
-- job moves twice. SKIP LOCKED: a job is being taken, or another session does the same.
create or replace function {schema}.age_ready(max_count integer default 1000) returns bigint
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  this_moment constant timestamptz := clock_timestamp();
  names constant text[] := array(
    select c.name from {schema}.channel_upkeep as c where c.ageing is not null
  );
  due record;
  class record;
  moved bigint;
  number bigint := 0;
begin
  if cardinality(names) = 0 then
    return 0;
  end if;
  for due in
    update {schema}.channel_upkeep as c set next_ageing_at = this_moment + c.ageing
    from (
      select d.name from {schema}.channel_upkeep as d
      where d.ageing is not null and d.next_ageing_at <= this_moment
      order by d.name
      limit 100
      for update skip locked
    ) as d
    where c.name = d.name
    returning c.name, c.ageing
  loop
    for class in
      select p.channel, p.priority from {schema}.ready_priorities(due.name) as p
      where {schema}.closest_policy(p.channel, names) = due.name
      order by p.channel, p.priority
    loop
      update {schema}.jobs as j set priority = class.priority - 1
      from (
        select r.id from {schema}.jobs as r
        where r.status = 'ready' and r.channel = class.channel and r.priority = class.priority
          and r.run_at <= this_moment - due.ageing
        order by r.channel, r.priority, r.run_at, r.id
        limit age_ready.max_count
        for update skip locked
      ) as old
      where j.id = old.id;
      get diagnostics moved = row_count;
      number := number + moved;
    end loop;
  end loop;
  return number;
end;
$$;
