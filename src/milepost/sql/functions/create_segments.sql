-- Create the segments of a processor, once: many instances may call it concurrently, and the number
-- of the first one counts. They start at `start`, or at the processor's checkpoint if it has run
-- without segments; an instance that still runs it without segments is fenced by the new epoch.
-- Returns how many were created.
--
-- The lock on the row in `processors` ensures that it happens once.
create or replace function {schema}.create_segments(
  processor text, version integer, number integer, start {schema}.position
) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
  at record;
begin
  perform {schema}.refuse_internal(create_segments.processor);
  if create_segments.number is null or create_segments.number not between 1 and 4096 then
    raise exception 'a processor has 1 to 4096 segments, not %', create_segments.number
      using errcode = 'invalid_parameter_value';
  end if;
  insert into {schema}.processors (name, version)
  values (create_segments.processor, create_segments.version)
  on conflict (name, version) do nothing;
  perform from {schema}.processors as p
  where p.name = create_segments.processor and p.version = create_segments.version
  for update;
  if exists (
    select from {schema}.segments as s
    where s.processor = create_segments.processor and s.version = create_segments.version
  ) then
    return 0;
  end if;

  select c.transaction_id, c."position", c.epoch
  into at
  from {schema}.checkpoints as c
  where c.processor = create_segments.processor
    and c.version = create_segments.version
    and c.segment = 0
  for update;
  if not found then
    perform {schema}.refuse_unreachable(create_segments.start);
  end if;
  insert into {schema}.segments (processor, version, id, mask, epoch)
  select create_segments.processor, create_segments.version, i.id, i.mask, coalesce(at.epoch, 0) + 1
  from {schema}.initial_segments(create_segments.number) as i;
  insert into {schema}.checkpoints (
    processor, version, segment, transaction_id, "position", epoch
  )
  select s.processor, s.version, s.id,
    coalesce(at.transaction_id, (create_segments.start).transaction_id),
    coalesce(at."position", (create_segments.start).position),
    s.epoch
  from {schema}.segments as s
  where s.processor = create_segments.processor and s.version = create_segments.version
  on conflict (processor, version, segment) do update
  set epoch = excluded.epoch, owner = null, updated_at = clock_timestamp();
  update {schema}.processors as p
  set segments = create_segments.number
  where p.name = create_segments.processor and p.version = create_segments.version;
  return create_segments.number;
end;
$$;
