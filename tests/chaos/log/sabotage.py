"""What keeps messages from being lost, taken out: whoever looks for losses must find some then."""

from __future__ import annotations

READ_TO_THE_NEWEST_ROW = """
create or replace function milepost.horizon() returns milepost.position
language sql volatile as $$
  select coalesce(
    (
      select row(transaction_id, "position")::milepost.position
      from milepost.messages order by transaction_id desc, "position" desc limit 1
    ),
    row(0, 0)::milepost.position
  )
$$
"""
APPEND_WITHOUT_A_FLOOR = """
create or replace function milepost.before_append() returns trigger
language plpgsql as $$ begin return null; end $$
"""
# As if no floor's holder had the lock that an INSERT takes on the table.
COUNT_NO_FLOOR = """
create or replace function milepost.floors_held()
returns table (virtualtransaction text, pid integer, floor bigint)
language sql volatile as $$ select null::text, null::integer, null::bigint where false $$
"""
# The floor goes with a rolled back savepoint; here the marker that it is held does not, being
# a lock of the session's.
MARKER_OUTLIVES_THE_SAVEPOINT = """
create or replace function milepost.before_append() returns trigger
language plpgsql as $$
declare
  own_id constant integer := pg_current_xact_id()::text::integer;
  floor bigint := coalesce(pg_sequence_last_value('milepost.messages_position_seq'), 0);
begin
  if exists (select from pg_locks where pid = pg_backend_pid() and classid = 1 and objid = own_id)
  then
    return null;
  end if;
  while not pg_try_advisory_xact_lock_shared((tg_relid::bigint << 32) | (floor & 4294967295)) loop
    floor := floor - 1;
  end loop;
  perform pg_advisory_unlock_all();  -- earlier transactions' markers; no floor is the session's
  perform pg_advisory_lock(1, own_id);
  return null;
end
$$
"""
