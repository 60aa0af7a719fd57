-- Merge two halves into one segment. It continues from the lower of their checkpoints; what the
-- other half had handled beyond that is stored as a floor, at or below which nothing is delivered
-- again. Requires the epochs of the operator's claims on both. Returns the id of the merged
-- segment, or null if a claim was lost. The merged segment is free, with a higher epoch than both
-- had.
create or replace function {schema}.merge_segments(
  processor text,
  version integer,
  segment integer,
  epoch bigint,
  partner integer,
  partner_epoch bigint
) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
  kept constant integer := least(merge_segments.segment, merge_segments.partner);
  gone constant integer := greatest(merge_segments.segment, merge_segments.partner);
  masks integer[];
  at record;
begin
  perform from {schema}.processors as p
  where p.name = merge_segments.processor and p.version = merge_segments.version
  for update;
  masks := array(
    select s.mask from {schema}.segments as s
    join (values
      (merge_segments.segment, merge_segments.epoch),
      (merge_segments.partner, merge_segments.partner_epoch)
    ) as held (id, epoch) on held.id = s.id and held.epoch = s.epoch
    where s.processor = merge_segments.processor
      and s.version = merge_segments.version
      and s.owner is not null
    order by s.id
    for update of s
  );
  if cardinality(masks) < 2 then
    return null;
  end if;
  if masks[1] <> masks[2] or kept # gone <> masks[1] # (masks[1] >> 1) then
    raise exception 'segments % and % of processor % are not halves of one',
      kept, gone, merge_segments.processor using errcode = 'MP062';
  end if;

  insert into {schema}.segment_floors (
    processor, version, segment, id, mask, transaction_id, "position"
  )
  select distinct on (facts.id, facts.mask) facts.processor, facts.version, kept, facts.id,
    facts.mask, facts.transaction_id, facts."position"
  from (
    select c.processor, c.version, c.segment as id, masks[1] as mask, c.transaction_id, c."position"
    from {schema}.checkpoints as c
    where c.processor = merge_segments.processor
      and c.version = merge_segments.version
      and c.segment in (kept, gone)
    union all
    select f.processor, f.version, f.id, f.mask, f.transaction_id, f."position"
    from {schema}.segment_floors as f
    where f.processor = merge_segments.processor
      and f.version = merge_segments.version
      and f.segment in (kept, gone)
  ) as facts
  order by facts.id, facts.mask, facts.transaction_id desc, facts."position" desc
  on conflict (processor, version, segment, id, mask) do update
  set transaction_id = excluded.transaction_id, "position" = excluded."position";
  delete from {schema}.segment_floors as f
  where f.processor = merge_segments.processor
    and f.version = merge_segments.version
    and f.segment = gone;

  select c.transaction_id, c."position" into at
  from {schema}.checkpoints as c
  where c.processor = merge_segments.processor
    and c.version = merge_segments.version
    and c.segment in (kept, gone)
  order by c.transaction_id, c."position"
  limit 1;
  update {schema}.checkpoints as c
  set transaction_id = at.transaction_id,
    "position" = at."position",
    epoch = greatest(merge_segments.epoch, merge_segments.partner_epoch) + 1,
    updated_at = clock_timestamp()
  where c.processor = merge_segments.processor
    and c.version = merge_segments.version
    and c.segment = kept;
  delete from {schema}.checkpoints as c
  where c.processor = merge_segments.processor
    and c.version = merge_segments.version
    and c.segment = gone;
  update {schema}.segments as s
  set mask = masks[1] >> 1,
    epoch = greatest(merge_segments.epoch, merge_segments.partner_epoch) + 1,
    owner = null, claimed_until = null, wanted_by = null, wanted_until = null
  where s.processor = merge_segments.processor
    and s.version = merge_segments.version
    and s.id = kept;
  delete from {schema}.segments as s
  where s.processor = merge_segments.processor
    and s.version = merge_segments.version
    and s.id = gone;
  perform {schema}.prune_floors(merge_segments.processor, merge_segments.version);
  update {schema}.processors as p
  set segments = p.segments - 1
  where p.name = merge_segments.processor and p.version = merge_segments.version;
  return kept;
end;
$$;
