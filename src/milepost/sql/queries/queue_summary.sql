-- As metrics() says: exact while there are few jobs, else estimated (`is_exact`).
select
  g.ready, g.scheduled, g.waiting, g.running, g.dead, g.kept, g.channel_count as channels,
  g.oldest_due_seconds, g.rate, g.is_exact
from json_to_record({schema}.metrics(array['queue'], 0) -> 'queue') as g (
  ready bigint, scheduled bigint, waiting bigint, running bigint, dead bigint, kept bigint,
  channel_count bigint, oldest_due_seconds float8, rate float8, is_exact boolean
)
