-- Claim up to `max_count` free segments for an instance: those that have no owner or whose claim
-- has expired by this server's clock, and that no operator wants; only those in `ids`, if given.
-- Each segment and its checkpoint get a new epoch, so that the next store of a former owner is
-- fenced.
--
-- SKIP LOCKED on both rows: another claimant is claiming the segment, or a batch of the former
-- owner is still in flight and has locked the checkpoint. Both are tried again at the next
-- heartbeat.
create or replace function {schema}.claim_segments(
  processor text,
  version integer,
  owner text,
  max_count integer,
  claim_seconds double precision,
  ids integer[] default null
) returns table (
  id integer, mask integer, epoch bigint, transaction_id bigint, "position" bigint
)
language plpgsql volatile as $$
#variable_conflict use_column
begin
  return query
  with free as materialized (
    select s.id
    from {schema}.segments as s
    join {schema}.checkpoints as c
      on c.processor = s.processor and c.version = s.version and c.segment = s.id
    where s.processor = claim_segments.processor
      and s.version = claim_segments.version
      and (claim_segments.ids is null or s.id = any(claim_segments.ids))
      and (s.owner is null or s.claimed_until < clock_timestamp())
      and (
        s.wanted_until is null
        or s.wanted_until < clock_timestamp()
        or s.wanted_by = claim_segments.owner
      )
    order by s.id
    limit claim_segments.max_count
    for update of s, c skip locked
  ),
  claimed as (
    update {schema}.segments as s
    set owner = claim_segments.owner,
      epoch = s.epoch + 1,
      claimed_until = clock_timestamp() + make_interval(secs => claim_segments.claim_seconds)
    from free
    where s.processor = claim_segments.processor
      and s.version = claim_segments.version
      and s.id = free.id
    returning s.id, s.mask, s.epoch
  )
  update {schema}.checkpoints as c
  set epoch = claimed.epoch, owner = claim_segments.owner
  from claimed
  where c.processor = claim_segments.processor
    and c.version = claim_segments.version
    and c.segment = claimed.id
  returning claimed.id, claimed.mask, claimed.epoch, c.transaction_id, c."position";
  if found then
    perform {schema}.prune_floors(claim_segments.processor, claim_segments.version);
  end if;
end;
$$;
