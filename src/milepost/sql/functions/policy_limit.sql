-- The last position, not below `after`, up to which all messages after `after` are older than `keep` and
-- not among the newest `keep_messages`; null: no such condition. At most `max_walked` messages are
-- examined, so that the result may be lower than it could be; null: all.
--
-- The messages are examined in order, from the oldest on. So this takes as long as there is something
-- to remove or to archive, and not as long as there is something to keep.
create or replace function {schema}.policy_limit(
  after {schema}.position, keep interval, keep_messages bigint, max_walked bigint default null
) returns {schema}.position
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set max_parallel_workers_per_gather = 0 set jit = off
as $$
#variable_conflict use_column
declare
  -- A message above the horizon may still get neighbours below it.
  up_to {schema}.position := {schema}.horizon();
  since constant timestamptz := clock_timestamp() - policy_limit.keep;
  young {schema}.position;
  last {schema}.position;
begin
  if policy_limit.keep_messages is not null then
    up_to := least(
      up_to,
      coalesce(
        (
          select row(m.transaction_id, m."position")::{schema}.position
          from {schema}.messages as m
          order by m.transaction_id desc, m."position" desc
          offset policy_limit.keep_messages limit 1
        ),
        policy_limit.after
      )
    );
  end if;
  if since is not null then
    select walked.transaction_id, walked."position"
    into young
    from (
      select m.transaction_id, m."position", m.recorded_at
      from {schema}.messages as m
      where (m.transaction_id, m."position")
          > ((policy_limit.after).transaction_id, (policy_limit.after).position)
        and (m.transaction_id, m."position") <= ((up_to).transaction_id, (up_to).position)
      order by m.transaction_id, m."position"
      limit policy_limit.max_walked
    ) as walked
    where walked.recorded_at >= since
      and isfinite(walked.recorded_at)  -- an infinite time tells nothing of an age
    order by walked.transaction_id, walked."position"
    limit 1;
    if found then
      up_to := row((young).transaction_id, (young).position - 1)::{schema}.position;
    end if;
  end if;
  if (young).position is null and policy_limit.max_walked is not null then
    up_to := coalesce(
      (
        select row(m.transaction_id, m."position")::{schema}.position
        from {schema}.messages as m
        where (m.transaction_id, m."position")
            > ((policy_limit.after).transaction_id, (policy_limit.after).position)
          and (m.transaction_id, m."position") <= ((up_to).transaction_id, (up_to).position)
        order by m.transaction_id, m."position"
        offset policy_limit.max_walked - 1 limit 1
      ),
      up_to
    );
  end if;
  select m.transaction_id, m."position"
  into last
  from {schema}.messages as m
  where (m.transaction_id, m."position")
      > ((policy_limit.after).transaction_id, (policy_limit.after).position)
    and (m.transaction_id, m."position") <= ((up_to).transaction_id, (up_to).position)
  order by m.transaction_id desc, m."position" desc
  limit 1;
  return case when found then last else policy_limit.after end;
end;
$$;
