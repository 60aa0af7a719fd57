-- Up to where messages may be removed: the lowest of these positions. The checkpoint of every
-- processor, with its segments, and of every version of a pipeline, also of one that is being
-- rebuilt, is such a gate: whoever has not handled a message keeps it in the log.
create or replace function {schema}.retention_gates()
returns table (
  consumer text, version integer, segment integer, transaction_id bigint, "position" bigint
)
language sql volatile
begin atomic
  select c.processor, c.version, c.segment, c.transaction_id, c."position"
  from {schema}.checkpoints as c
  order by c.transaction_id, c."position", c.processor, c.version, c.segment;
end;
