-- A short log is counted; the size of a long one is estimated from the statistics.
select
  log.log_order,
  case when counted.is_all then counted.messages else greatest(counted.messages, about.messages) end
    as messages,
  counted.is_all as is_exact,
  newest.transaction_id,
  newest."position",
  newest.age_seconds
from {schema}.log as log
cross join lateral (
  select count(*) as messages, count(*) < %(count_up_to)s as is_all
  from (select from {schema}.messages limit %(count_up_to)s) as first_messages
) as counted
cross join (
  select reltuples::bigint as messages from pg_class where oid = '{schema}.messages'::regclass
) as about
left join lateral (
  select
    transaction_id,
    "position",
    case when isfinite(recorded_at)
      then extract(epoch from clock_timestamp() - recorded_at)::float8
    end as age_seconds
  from {schema}.messages
  order by transaction_id desc, "position" desc
  limit 1
) as newest on true
