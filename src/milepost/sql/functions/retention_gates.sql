-- Up to where messages may be removed: the lowest of these positions. The checkpoint of every
-- processor, with its segments, and of every version of a pipeline, also of one that is being
-- rebuilt, is such a gate: whoever has not handled a message keeps it in the log. If the policy names an
-- archive, the end of the archive is one too, whether the archiver has ever run or not. Its own
-- checkpoint is not: it counts only as long as there is an archive.
create or replace function {schema}.retention_gates()
returns table (
  consumer text, version integer, segment integer, transaction_id bigint, "position" bigint
)
language sql volatile
begin atomic
  select gate.consumer, gate.version, gate.segment, gate.transaction_id, gate."position"
  from (
    select c.processor as consumer, c.version, c.segment, c.transaction_id, c."position"
    from {schema}.checkpoints as c
    where c.processor <> 'milepost.archive'
    union all
    select 'milepost.archive', 1, 0, archived.transaction_id, archived."position"
    from {schema}.retention as r
    cross join {schema}.archive_end() as archived
    where r.archive is not null
  ) as gate
  order by gate.transaction_id, gate."position", gate.consumer, gate.version, gate.segment;
end;
