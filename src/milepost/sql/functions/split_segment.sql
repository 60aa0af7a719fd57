-- Split a segment into two halves: its mask gets one bit longer, and both continue from its
-- checkpoint. Requires the epoch of the operator's claim, so that the former owner has flushed and
-- released it before. Returns the id of the new half, or null if the claim was lost. Both are free
-- afterwards, with a higher epoch than any before.
create or replace function {schema}.split_segment(
  processor text, version integer, segment integer, epoch bigint
) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
  parent record;
  bit integer;
begin
  perform from {schema}.processors as p
  where p.name = split_segment.processor and p.version = split_segment.version
  for update;
  select s.mask, s.epoch into parent
  from {schema}.segments as s
  where s.processor = split_segment.processor
    and s.version = split_segment.version
    and s.id = split_segment.segment
    and s.epoch = split_segment.epoch
    and s.owner is not null
  for update;
  if not found then
    return null;
  end if;
  if parent.mask = 2147483647 then
    raise exception 'segment % of processor % cannot be split any further',
      split_segment.segment, split_segment.processor using errcode = 'MP061';
  end if;
  bit := parent.mask + 1;

  update {schema}.segments as s
  set mask = parent.mask + bit, epoch = parent.epoch + 1, owner = null, claimed_until = null,
    wanted_by = null, wanted_until = null
  where s.processor = split_segment.processor
    and s.version = split_segment.version
    and s.id = split_segment.segment;
  insert into {schema}.segments (processor, version, id, mask, epoch)
  values (
    split_segment.processor, split_segment.version, split_segment.segment + bit,
    parent.mask + bit, parent.epoch + 1
  );
  update {schema}.checkpoints as c
  set epoch = parent.epoch + 1
  where c.processor = split_segment.processor
    and c.version = split_segment.version
    and c.segment = split_segment.segment;
  insert into {schema}.checkpoints (
    processor, version, segment, transaction_id, "position", epoch
  )
  select c.processor, c.version, split_segment.segment + bit, c.transaction_id, c."position",
    c.epoch
  from {schema}.checkpoints as c
  where c.processor = split_segment.processor
    and c.version = split_segment.version
    and c.segment = split_segment.segment;

  insert into {schema}.segment_floors (
    processor, version, segment, id, mask, transaction_id, "position"
  )
  select f.processor, f.version, split_segment.segment + bit, f.id, f.mask, f.transaction_id,
    f."position"
  from {schema}.segment_floors as f
  where f.processor = split_segment.processor
    and f.version = split_segment.version
    and f.segment = split_segment.segment;
  perform {schema}.prune_floors(split_segment.processor, split_segment.version);
  update {schema}.processors as p
  set segments = p.segments + 1
  where p.name = split_segment.processor and p.version = split_segment.version;
  return split_segment.segment + bit;
end;
$$;
