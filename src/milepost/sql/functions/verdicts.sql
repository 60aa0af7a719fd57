-- The outcome for each of the jobs that were to be changed, in order, given those that were
-- changed. With their attempts and tokens: a slow worker may name one job twice, with an attempt
-- that it has lost and with the one that it holds.
create or replace function {schema}.verdicts(
  ids bigint[],
  attempts integer[],
  tokens bigint[],
  changed bigint[],
  changed_attempts integer[],
  changed_tokens bigint[]
) returns setof {schema}.verdict
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
set enable_material = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
  -- Each is changed once: if the numbers are equal, all were changed.
  if cardinality(verdicts.changed) = cardinality(verdicts.ids) then
    return query select 'done'::{schema}.verdict from unnest(verdicts.ids);
    return;
  end if;
  return query
  select case
      -- -1 stands for no token. Written so that the planner can hash it, unlike `is distinct from`.
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
