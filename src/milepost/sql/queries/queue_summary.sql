select
  q.ready, q.scheduled, q.waiting, q.running, q.dead, q.kept, q.channel_count as channels,
  q.oldest_due_seconds, q.rate, q.overdue, q.estimated
from json_to_record(
  {schema}.metrics(array['queue'], 0, %(max_counted)s) -> 'queue'
) as q (
  ready bigint, scheduled bigint, waiting bigint, running bigint, dead bigint, kept bigint,
  channel_count bigint, oldest_due_seconds float8, rate float8,
  overdue bigint, estimated text[]
)
