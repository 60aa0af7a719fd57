-- The priorities of the ready jobs in a channel, or in all channels of a prefix (`tenant.*`): one
-- index descent each, at most 10,000. Not the most urgent one there can be.
create or replace function {schema}.ready_priorities(pattern text)
returns table (channel text, priority smallint)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  is_prefix constant boolean := right(ready_priorities.pattern, 1) = '*';
  start constant text collate "C" := case
    when is_prefix then left(ready_priorities.pattern, -1) else ready_priorities.pattern
  end;
begin
  return query
  with recursive visited (channel, priority) as (
    (
      select j.channel, j.priority from {schema}.jobs as j
      where j.status = 'ready' and j.channel >= start
      order by j.channel, j.priority, j.run_at, j.id limit 1
    )
    union all
    select next.channel, next.priority from visited as v cross join lateral (
      select j.channel, j.priority from {schema}.jobs as j
      where j.status = 'ready' and (j.channel, j.priority) > (v.channel, v.priority)
      order by j.channel, j.priority, j.run_at, j.id limit 1
    ) as next
    where v.channel = start or is_prefix and starts_with(v.channel, start)
  )
  select v.channel::text, v.priority from visited as v
  where (v.channel = start or is_prefix and starts_with(v.channel, start)) and v.priority > -32768
  limit 10000;
end;
$$;
