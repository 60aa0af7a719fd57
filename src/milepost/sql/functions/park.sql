-- Set messages of one processor aside because their keys are parked (park_messages), in the
-- transaction that moves the checkpoint past them. Returns how many were set aside: those that the
-- table has. The caller passes what is only in the archive to park_messages.
create or replace function {schema}.park(
  processor text,
  version integer,
  transaction_ids bigint[],
  positions bigint[],
  error text,
  traceback text default '',
  attempts integer default 0,
  is_replayed boolean[] default null,
  retry boolean default false
) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
  found_messages {schema}.messages[];
  found_replayed boolean[];
begin
  select
    array_agg(m order by m.transaction_id, m."position"),
    array_agg(coalesce(wanted.is_replayed, false) order by m.transaction_id, m."position")
  into found_messages, found_replayed
  from unnest(park.transaction_ids, park.positions, park.is_replayed)
    as wanted (transaction_id, "position", is_replayed)
  join {schema}.messages as m using (transaction_id, "position");
  if found_messages is null then
    return 0;
  end if;
  return {schema}.park_messages(
    park.processor, park.version, found_messages, park.error, park.traceback, park.attempts,
    found_replayed, park.retry
  );
end;
$$;
