-- Every checkpoint that concerns a message, and whether it has passed it. Of a processor with
-- segments: that of the segment of the message's key.
select
  c.processor as name,
  c.version,
  q.name is not null as is_pipeline,
  case when s.mask is not null then s.id end as segment,
  c.transaction_id,
  c."position",
  (c.transaction_id, c."position") >= (%(transaction_id)s, %(position)s) as is_passed,
  (p.topics is null or %(topic)s = any(p.topics))
    and (p.types is null or %(type)s = any(p.types))
    and (q.topics is null or %(topic)s = any(q.topics))
    and (q.types is null or %(type)s = any(q.types)) as is_wanted
from {schema}.checkpoints as c
left join {schema}.processors as p on p.name = c.processor and p.version = c.version
left join {schema}.pipelines as q on q.name = c.processor and q.version = c.version
left join {schema}.segments as s
  on s.processor = c.processor and s.version = c.version and s.id = c.segment
where c.processor not like 'milepost.%%'
  and (s.mask is null or {schema}.key_hash(%(key)s) & s.mask = s.id)
order by c.processor, c.version
