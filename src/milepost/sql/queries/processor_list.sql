-- Lag counts what the processor's own filter lets through, up to a bound.
select
  p.name,
  p.version,
  c.transaction_id,
  c."position",
  lag.messages as lag_messages,
  lag.messages < %(count_up_to)s as is_lag_exact,
  coalesce(lag.seconds, 0)::double precision as lag_seconds,
  case
    when p.is_paused then 'paused'
    when p.state not in ('stopped', 'failed')
      and p.reported_at < clock_timestamp() - interval '30 s' then 'silent'
    else p.state
  end as state,
  p.owner,
  case
    when p.reported_at < clock_timestamp() - interval '30 s' then 0
    else p.rate
  end as rate,
  p.handled,
  p.last_error,
  p.last_error_at,
  c.updated_at,
  (
    select count(*)
    from {schema}.dead_letters as d
    where d.processor = p.name and d.version = p.version
  ) as dead_letters
from {schema}.processors as p
left join {schema}.checkpoints as c
  on c.processor = p.name and c.version = p.version and c.segment = 0
cross join lateral (
  select
    count(*) as messages,
    extract(epoch from clock_timestamp() - min(waiting.recorded_at)) as seconds
  from (
    select m.recorded_at
    from {schema}.messages as m
    where (m.transaction_id, m."position")
        > (coalesce(c.transaction_id, 0), coalesce(c."position", 0))
      and (p.topics is null or m.topic = any(p.topics))
      and (p.types is null or m.type = any(p.types))
    order by m.transaction_id, m."position"
    limit %(count_up_to)s
  ) as waiting
) as lag
where %(name)s::text is null or p.name = %(name)s
order by p.name, p.version
