-- End running jobs as cancelled: the decision of who runs them. One that is to be kept stays for that
-- time; the others are gone soon.
create or replace function {schema}.cancel_running(
  ids bigint[], attempts integer[], errors text[] default null, tokens bigint[] default null
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
    select a.id, a.attempt, a.token, a.error
    from unnest(
      cancel_running.ids, cancel_running.attempts, cancel_running.tokens, cancel_running.errors
    ) as a (id, attempt, token, error)
    order by a.id
  ),
  ended as (
    update {schema}.jobs as j
    set status = 'cancelled', is_cancelled = true, locked_until = null,
      last_error = coalesce(asked.error, j.last_error),
      finished_at = clock_timestamp(),
      kept_until = clock_timestamp() + coalesce(j.keep_for, interval '0')
    from asked
    where j.id = asked.id and j.attempt = asked.attempt
      and j.token is not distinct from asked.token and j.locked_until is not null
    returning j.id, j.attempt, j.token
  )
  select array_agg(id), array_agg(attempt), array_agg(token)
  from ended into changed, changed_attempts, changed_tokens;
  return query
  select * from {schema}.verdicts(
    cancel_running.ids, cancel_running.attempts, cancel_running.tokens,
    changed, changed_attempts, changed_tokens
  );
end;
$$;
