-- The spans in which messages of a range were appended, at most 128. Only its first 1,000 messages
-- are looked at. An escaped NUL, which SQL can append, would be an error in any operator on json.
select traced.traceparent, traced.tracestate
from (
  select
    looked_at.metadata ->> 'traceparent' as traceparent,
    looked_at.metadata ->> 'tracestate' as tracestate
  from (
    select case when strpos(m.metadata::text, '\u0000') = 0 then m.metadata end as metadata
    from {schema}.messages as m
    where (m.transaction_id, m."position") > (%(after_transaction_id)s, %(after_position)s)
      and (m.transaction_id, m."position") <= (%(last_transaction_id)s, %(last_position)s)
      and (%(topics)s::text[] is null or m.topic = any(%(topics)s::text[]))
      and (%(types)s::text[] is null or m.type = any(%(types)s::text[]))
    order by m.transaction_id, m."position"
    limit 1000
  ) as looked_at
) as traced
where traced.traceparent is not null
limit 128
