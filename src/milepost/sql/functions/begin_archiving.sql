-- Begin a session of the archiver: a new epoch, so that what another session still writes is fenced.
-- Returns the position after which to archive: the end of the archive.
--
-- The row is locked first: a commit of the former session is waited for, and the end of the archive,
-- which the next statement reads, includes it.
create or replace function {schema}.begin_archiving(
  owner text, out transaction_id bigint, out "position" bigint, out epoch bigint
)
language plpgsql volatile set lock_timeout = '10s' as $$
#variable_conflict use_column
declare
  archived {schema}.position;
  removed {schema}.position;
begin
  insert into {schema}.checkpoints as c (
    processor, version, segment, transaction_id, "position", epoch, owner
  )
  values ('milepost.archive', 1, 0, 0, 0, 1, begin_archiving.owner)
  on conflict (processor, version, segment) do update
  set epoch = c.epoch + 1, owner = excluded.owner;
  archived := {schema}.archive_end();
  select l.removed_transaction_id, l.removed_position into removed from {schema}.log as l;
  if archived < removed then
    raise exception 'messages after position %:%, up to %:%, were removed without being archived',
      (archived).transaction_id, (archived).position, (removed).transaction_id, (removed).position
      using errcode = 'MP043',
      hint = 'The archive has a gap there, and nothing was changed. To begin a new archive after it: milepost archive forget';
  end if;
  update {schema}.checkpoints as c
  set transaction_id = (archived).transaction_id, "position" = (archived).position,
    updated_at = clock_timestamp()
  where c.processor = 'milepost.archive' and c.version = 1 and c.segment = 0
  returning c.transaction_id, c."position", c.epoch
  into transaction_id, "position", epoch;
end;
$$;
