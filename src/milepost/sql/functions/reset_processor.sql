-- Reset a processor; the only function that may move checkpoints back. All its checkpoints move to
-- `new`, with a higher epoch, so that an instance with an old epoch stores nothing. What was
-- handled is recorded, so that it is recognised when it is delivered again; dead letters of
-- messages that will be delivered again are removed. After this call, in the same transaction, the
-- caller removes the effects of the processor.
--
-- The checkpoints are locked first: this waits for a batch in flight, whose effects can then be
-- removed. Then the parked keys: this waits for a retry in flight.
--
-- The lock on the row in `processors` prevents changes of its segments. If it has segments, the
-- caller is an operator who has claimed all of them (otherwise: MP063); they are free afterwards.
create or replace function {schema}.reset_processor(
  processor text, version integer, new {schema}.position, operator text default null
) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
  removed {schema}.position;
begin
  perform {schema}.refuse_internal(reset_processor.processor);
  -- Against a removal (remove_messages.sql): it waits, or this sees its marker.
  perform {schema}.await_lock(
    hashtextextended('milepost.removal.{schema}', 0), 'the removal of messages', is_shared => true
  );
  perform {schema}.refuse_unreachable(reset_processor.new);
  perform {schema}.refuse_lost(reset_processor.new);
  select l.removed_transaction_id, l.removed_position into removed from {schema}.log as l;
  perform from {schema}.processors as p
  where p.name = reset_processor.processor and p.version = reset_processor.version
  for no key update;
  perform from {schema}.segments as s
  where s.processor = reset_processor.processor and s.version = reset_processor.version
  order by s.id
  for no key update;
  if exists (
    select from {schema}.segments as s
    where s.processor = reset_processor.processor
      and s.version = reset_processor.version
      and (
        s.owner is distinct from reset_processor.operator or s.claimed_until < clock_timestamp()
      )
  ) then
    raise exception 'processor % cannot be reset: not all of its segments are claimed by the operator',
      reset_processor.processor
      using errcode = 'MP063', hint = 'Claim them first: want_segments.';
  end if;
  perform from {schema}.checkpoints as c
  where c.processor = reset_processor.processor and c.version = reset_processor.version
  order by c.segment
  for update;
  perform {schema}.note_replay(reset_processor.processor, reset_processor.version);

  perform from {schema}.parked_keys as k
  where k.processor = reset_processor.processor and k.version = reset_processor.version
  order by k.digest
  for update;
  delete from {schema}.dead_letters as d
  where d.processor = reset_processor.processor
    and d.version = reset_processor.version
    and row(d.transaction_id, d."position")::{schema}.position > reset_processor.new
    and (
      exists (
        select from {schema}.messages as m
        where m.transaction_id = d.transaction_id and m."position" = d."position"
      )
      -- Removed from the table, and read from the archive: refuse_unreachable has made sure.
      or row(d.transaction_id, d."position")::{schema}.position <= removed
    );
  delete from {schema}.parked_keys as k
  where k.processor = reset_processor.processor
    and k.version = reset_processor.version
    and not exists (select from {schema}.dead_letters as d where d.parked_id = k.id);

  delete from {schema}.segment_floors as f
  where f.processor = reset_processor.processor and f.version = reset_processor.version;
  update {schema}.checkpoints as c
  set transaction_id = (reset_processor.new).transaction_id,
    "position" = (reset_processor.new).position,
    epoch = c.epoch + 1,
    updated_at = clock_timestamp()
  where c.processor = reset_processor.processor and c.version = reset_processor.version;
  if not found then
    insert into {schema}.checkpoints (processor, version, segment, transaction_id, "position")
    values (
      reset_processor.processor, reset_processor.version, 0, (reset_processor.new).transaction_id,
      (reset_processor.new).position
    );
  end if;
  update {schema}.segments as s
  set epoch = c.epoch, owner = null, claimed_until = null, wanted_by = null, wanted_until = null
  from {schema}.checkpoints as c
  where s.processor = reset_processor.processor
    and s.version = reset_processor.version
    and c.processor = s.processor
    and c.version = s.version
    and c.segment = s.id;
end;
$$;
