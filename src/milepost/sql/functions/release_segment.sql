-- Give a segment back, so that others take it at their next beat. Only by the epoch of the claim:
-- one that was taken over meanwhile stays its new owner's. Answers whether it was still held.
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
