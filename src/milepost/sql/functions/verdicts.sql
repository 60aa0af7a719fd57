-- What became of the jobs that were to be changed, in order, given those that were. With their
-- attempts and tokens: a worker that was slow may name one job twice, by an attempt that it lost and
-- by the one that it holds.
create or replace function {schema}.verdicts(
  ids bigint[],
  attempts integer[],
  tokens bigint[],
  changed bigint[],
  changed_attempts integer[],
  changed_tokens bigint[]
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
      -- No token is -1. Spelt so that the planner may hash it, as it may not `is distinct from`.
      when (a.id, a.attempt, coalesce(a.token, -1)) in (
        select c.id, c.attempt, coalesce(c.token, -1)
        from unnest(verdicts.changed, verdicts.changed_attempts, verdicts.changed_tokens)
          as c (id, attempt, token)
      ) then 'done'
      when exists (
        select from {schema}.jobs as j
        where j.id = a.id and j.status not in ('done', 'cancelled')
      ) then 'stale'
      else 'gone'
    end::{schema}.verdict
  from unnest(verdicts.ids, verdicts.attempts, verdicts.tokens)
    with ordinality as a (id, attempt, token, number)
  order by a.number;
end;
$$;
