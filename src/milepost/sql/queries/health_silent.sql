-- Sessions of frozen instances, with what they keep from the others: several segments each.
select
  processor_name as processor, processor_version as version, owner, pid,
  max(silent_seconds) as silent_seconds,
  array_agg(segment order by segment) as segments
from {schema}.silent_sessions(null, null, %(claim_seconds)s)
group by processor_name, processor_version, owner, pid
order by processor_name, processor_version, pid
