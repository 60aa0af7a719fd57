-- Release a segment, so that others claim it at their next heartbeat. Requires the epoch of the
-- claim: a segment that was taken over stays with its new owner. Returns whether it was still held.
create or replace function {schema}.release_segment(
  processor text, version integer, segment integer, epoch bigint
) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
begin
  update {schema}.segments as s
  set owner = null, claimed_until = null
  where s.processor = release_segment.processor
    and s.version = release_segment.version
    and s.id = release_segment.segment
    and s.epoch = release_segment.epoch
    and s.owner is not null;
  return found;
end;
$$;
