-- Forget a processor: its checkpoints, segments, dead letters and parked keys. It no longer keeps
-- messages in the log. An instance that still runs finds its checkpoint missing, and its effects are
-- rolled back. Returns whether there was one.
--
-- Locks in the order of a reset.
create or replace function {schema}.abandon_processor(processor text, version integer)
returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  was_known boolean;
begin
  perform {schema}.refuse_internal(abandon_processor.processor);
  perform from {schema}.processors as p
  where p.name = abandon_processor.processor and p.version = abandon_processor.version
  for update;
  was_known := found;
  delete from {schema}.segments as s
  where s.processor = abandon_processor.processor and s.version = abandon_processor.version;
  delete from {schema}.checkpoints as c
  where c.processor = abandon_processor.processor and c.version = abandon_processor.version;
  delete from {schema}.dead_letters as d
  where d.processor = abandon_processor.processor and d.version = abandon_processor.version;
  delete from {schema}.parked_keys as k
  where k.processor = abandon_processor.processor and k.version = abandon_processor.version;
  delete from {schema}.segment_floors as f
  where f.processor = abandon_processor.processor and f.version = abandon_processor.version;
  delete from {schema}.replays as r
  where r.processor = abandon_processor.processor and r.version = abandon_processor.version;
  delete from {schema}.instances as i
  where i.processor = abandon_processor.processor and i.version = abandon_processor.version;
  delete from {schema}.processors as p
  where p.name = abandon_processor.processor and p.version = abandon_processor.version;
  return was_known;
end;
$$;
