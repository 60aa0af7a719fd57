-- The range of the next file: after the end of the archive, up to and including a position, of at most
-- `file_messages` messages. No row if there is nothing to archive yet: fewer than `least_messages` wait
-- until one of them has waited for `longest_wait`, unless this is the `is_last` call or somebody has
-- asked for more than there is in the archive (request_archiving).
--
-- It is called every few seconds, so it must cost little where most messages are kept. The newest ones
-- are counted only if there seem to be enough. And a whole file is planned by the primary key alone if
-- its last message is much older than it must be: the times of messages are in order but for a few, and
-- to archive one of them too early does no harm.
create or replace function {schema}.plan_archive(
  file_messages bigint, least_messages bigint, longest_wait interval, is_last boolean
) returns table (
  after_transaction_id bigint, after_position bigint, last_transaction_id bigint, last_position bigint,
  about bigint, location text
)
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set max_parallel_workers_per_gather = 0 set jit = off
as $$
#variable_conflict use_column
declare
  policy {schema}.retention;
  age interval;
  keep_messages bigint;
  after constant {schema}.position := {schema}.archive_end();
  horizon constant {schema}.position := {schema}.horizon();
  first_at timestamptz;
  written_at timestamptz;
  is_due boolean;
  whole {schema}.position;
  last {schema}.position;
begin
  select * into policy from {schema}.retention;
  if policy.archive is null or after >= horizon then
    return;
  end if;
  age := coalesce(policy.archive_after, policy.keep);
  keep_messages := case when policy.archive_after is null then policy.keep_messages end;

  select m.recorded_at into first_at
  from {schema}.messages as m
  where (m.transaction_id, m."position") > ((after).transaction_id, (after).position)
  order by m.transaction_id, m."position"
  limit 1;
  if first_at >= clock_timestamp() - age and isfinite(first_at) then
    return;
  end if;
  select a.written_at into written_at
  from {schema}.archive as a
  order by a.last_transaction_id desc, a.last_position desc
  limit 1;
  -- Since when it waits is not known of a message that is kept for its number.
  is_due := plan_archive.is_last or coalesce(
    (policy.requested_transaction_id, policy.requested_position)
      > ((after).transaction_id, (after).position),
    false
  ) or coalesce(
    clock_timestamp() - plan_archive.longest_wait > greatest(
      coalesce(written_at, case when keep_messages is not null then policy.changed_at end),
      case when isfinite(first_at) then first_at + coalesce(age, interval '0') end
    ),
    true
  );
  if not is_due
    and (horizon).position - (after).position < keep_messages + plan_archive.least_messages then
    return;
  end if;

  -- From the primary key alone. The row itself is looked up only then.
  select m.transaction_id, m."position"
  into whole
  from {schema}.messages as m
  where (m.transaction_id, m."position") > ((after).transaction_id, (after).position)
    and (m.transaction_id, m."position") <= ((horizon).transaction_id, (horizon).position)
  order by m.transaction_id, m."position"
  offset plan_archive.file_messages - 1 limit 1;
  if found and keep_messages is null and (
    age is null
    or exists (
      select from {schema}.messages as m
      where m.transaction_id = whole.transaction_id
        and m."position" = whole."position"
        and m.recorded_at < clock_timestamp() - age - interval '1 hour'
    )
  ) then
    last := whole;
    about := plan_archive.file_messages;
  else
    last := {schema}.archive_limit(plan_archive.file_messages);
    select count(*) into about
    from (
      select from {schema}.messages as m
      where (m.transaction_id, m."position") > ((after).transaction_id, (after).position)
        and (m.transaction_id, m."position") <= ((last).transaction_id, (last).position)
    ) as counted;
    if about = 0 or (about < plan_archive.least_messages and not is_due) then
      return;
    end if;
  end if;
  after_transaction_id := (after).transaction_id;
  after_position := (after).position;
  last_transaction_id := (last).transaction_id;
  last_position := (last).position;
  location := policy.archive;
  return next;
end;
$$;
