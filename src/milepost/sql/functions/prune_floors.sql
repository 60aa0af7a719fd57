-- Remove floors that have no effect any more: at or below the checkpoint of their segment, or for
-- keys that it does not contain.
create or replace function {schema}.prune_floors(processor text, version integer) returns void
language sql volatile as $$
  delete from {schema}.segment_floors as f
  using {schema}.segments as s, {schema}.checkpoints as c
  where f.processor = prune_floors.processor and f.version = prune_floors.version
    and s.processor = f.processor and s.version = f.version and s.id = f.segment
    and c.processor = f.processor and c.version = f.version and c.segment = f.segment
    and (
      (f.transaction_id, f."position") <= (c.transaction_id, c."position")
      or f.id & f.mask & s.mask <> s.id & f.mask & s.mask
    )
$$;
