-- What became of the jobs that were to be changed, in order, given those that were. With their
-- attempts: a worker that was slow may name one job twice, by an attempt that it lost and by the one
-- that it holds.
create or replace function {schema}.verdicts(
  ids bigint[], attempts integer[], changed bigint[], changed_attempts integer[]
) returns setof {schema}.verdict
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  -- Each is changed once: as many as were asked for are all of them.
  if cardinality(verdicts.changed) = cardinality(verdicts.ids) then
    return query select 'done'::{schema}.verdict from unnest(verdicts.ids);
    return;
  end if;
  return query
  select case
      when (a.id, a.attempt) in (
        select c.id, c.attempt
        from unnest(verdicts.changed, verdicts.changed_attempts) as c (id, attempt)
      ) then 'done'
      when exists (
        select from {schema}.jobs as j
        where j.id = a.id and j.status not in ('done', 'cancelled')
      ) then 'stale'
      else 'gone'
    end::{schema}.verdict
  from unnest(verdicts.ids, verdicts.attempts) with ordinality as a (id, attempt, number)
  order by a.number;
end;
$$;
