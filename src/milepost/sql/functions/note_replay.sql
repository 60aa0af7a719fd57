-- Record, before a reset, up to which position the keys of each slice have been handled: the
-- checkpoint of a segment for its keys (without segments, for all keys), and beyond it the floors
-- that a merge has left. A record of an earlier reset that is still ahead of some checkpoint stays.
create or replace function {schema}.note_replay(processor text, version integer) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
  delete from {schema}.replays as r
  where r.processor = note_replay.processor
    and r.version = note_replay.version
    and not exists (
      select from {schema}.checkpoints as c
      where c.processor = r.processor
        and c.version = r.version
        and (c.transaction_id, c."position") < (r.transaction_id, r."position")
    );
  insert into {schema}.replays as r (processor, version, id, mask, transaction_id, "position")
  select distinct on (facts.id, facts.mask)
    note_replay.processor, note_replay.version, facts.id, facts.mask, facts.transaction_id,
    facts."position"
  from (
    select c.segment as id, coalesce(s.mask, 0) as mask, c.transaction_id, c."position"
    from {schema}.checkpoints as c
    left join {schema}.segments as s
      on s.processor = c.processor and s.version = c.version and s.id = c.segment
    where c.processor = note_replay.processor and c.version = note_replay.version
    union all
    select f.id, f.mask, f.transaction_id, f."position"
    from {schema}.segment_floors as f
    where f.processor = note_replay.processor and f.version = note_replay.version
  ) as facts
  order by facts.id, facts.mask, facts.transaction_id desc, facts."position" desc
  on conflict (processor, version, id, mask) do update
  set transaction_id = excluded.transaction_id, "position" = excluded."position"
  where (r.transaction_id, r."position") < (excluded.transaction_id, excluded."position");
end;
$$;
