-- Give running jobs back untouched, to the place in their channel that they had; the other workers
-- are told. A job that was asked to stop ends here, as cancelled.
create or replace function {schema}.give_back(
  ids bigint[], attempts integer[], tokens bigint[] default null
) returns setof {schema}.verdict
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  changed bigint[];
  changed_attempts integer[];
  changed_tokens bigint[];
begin
  with asked as materialized (
    select a.id, a.attempt, a.token
    from unnest(give_back.ids, give_back.attempts, give_back.tokens) as a (id, attempt, token)
    order by a.id
  ),
  given as (
    update {schema}.jobs as j
    set status = case when j.is_cancelled then 'cancelled' else 'ready' end::{schema}.job_status,
      locked_until = null,
      finished_at = case when j.is_cancelled then clock_timestamp() end,
      kept_until = case
        when j.is_cancelled then clock_timestamp() + coalesce(j.keep_for, interval '0')
      end
    from asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
    returning j.id, j.attempt, j.token
  )
  select array_agg(id), array_agg(attempt), array_agg(token)
  from given into changed, changed_attempts, changed_tokens;
  if cardinality(changed) > 0 then
    perform pg_notify(concat({channel}, '_queue'), '');
  end if;
  return query
  select * from {schema}.verdicts(
    give_back.ids, give_back.attempts, give_back.tokens, changed, changed_attempts, changed_tokens
  );
end;
$$;
