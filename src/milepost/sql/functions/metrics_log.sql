-- The log and its horizon, for metrics(). Up to `max_counted` messages (null: 1,000) are counted; above,
-- their number is the server's estimate, which vacuum and analyze renew. What waits above the horizon is counted up to 10,000, then estimated by
-- positions. `horizon_age_seconds`: the age of the oldest transaction that holds the horizon, as far
-- as this role may see it, and at least that of the first message that waits; 0: nothing holds it.
--
-- Where the log cannot be read (a restored log, a standby) there is no horizon: `refusal` is why.
create or replace function {schema}.metrics_log(max_counted integer) returns json
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
#variable_conflict use_column
declare
  horizon {schema}.position;
  refusal text;
  bound constant integer := coalesce(metrics_log.max_counted, 1000);
begin
  begin
    horizon := {schema}.horizon();
  exception when others then
    if sqlstate not like 'MP%' then
      raise;
    end if;
    refusal := sqlerrm;
  end;
  return (
    select json_build_object(
      'order', l.log_order,
      'refusal', refusal,
      'messages', case
        when few.number < bound then few.number else greatest(about.reltuples, few.number)::bigint
      end,
      'is_messages_exact', few.number < bound,
      'newest_transaction_id', newest.transaction_id,
      'newest_position', newest."position",
      'newest_age_seconds', {schema}.age_seconds(newest.recorded_at),
      'oldest_age_seconds', {schema}.age_seconds(oldest.recorded_at),
      'horizon_transaction_id', (horizon).transaction_id,
      'horizon_position', (horizon).position,
      'horizon_lag_messages', case
        when horizon is null then null
        when above.number < 10000 then above.number
        else greatest(above.number, newest."position" - (horizon).position)
      end,
      'is_horizon_lag_exact', case when horizon is not null then above.number < 10000 end,
      'horizon_age_seconds', case
        when horizon is not null then coalesce(greatest(held.seconds, above.seconds), 0)
      end,
      'holders', held.number,
      'removed_transaction_id', l.removed_transaction_id,
      'removed_position', l.removed_position
    )
    from {schema}.log as l
    cross join (
      select c.reltuples from pg_class as c where c.oid = '{schema}.messages'::regclass
    ) as about
    cross join (
      select count(*) as number
      from (
        select from {schema}.messages as m order by m.transaction_id, m."position" limit bound
      ) as counted
    ) as few
    left join lateral (
      select m.transaction_id, m."position", m.recorded_at from {schema}.messages as m
      order by m.transaction_id desc, m."position" desc limit 1
    ) as newest on true
    left join lateral (
      select m.recorded_at from {schema}.messages as m
      order by m.transaction_id, m."position" limit 1
    ) as oldest on true
    cross join lateral (
      select count(*) as number, {schema}.age_seconds(min(waiting.recorded_at)) as seconds
      from (
        select m.recorded_at from {schema}.messages as m
        where (m.transaction_id, m."position") > ((horizon).transaction_id, (horizon).position)
        order by m.transaction_id, m."position" limit 10000
      ) as waiting
    ) as above
    cross join lateral (
      select count(*) as number, max(extract(epoch from h.age))::float8 as seconds
      from {schema}.horizon_holders() as h
      where h.pid is not null or h.prepared is not null
    ) as held
  );
end;
$$;
