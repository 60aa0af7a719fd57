-- Whether something is in flight above a horizon, so that it is worth looking again soon. Here:
-- whether positions were drawn that the horizon does not cover yet, or somebody holds a floor
-- and is about to draw (a COPY that waits for its first row). A reader that slept then would
-- miss it, because only one of the transactions in flight notifies (see before_append).
create or replace function {schema}.is_held(horizon {schema}.position) returns boolean
language sql volatile security definer
return coalesce(pg_sequence_last_value('{schema}.messages_position_seq'), 0) > (horizon).position
  or exists (
    select from pg_locks
    where locktype = 'advisory'
      and database = (select oid from pg_database where datname = current_database())
      and classid = '{schema}.messages'::regclass
      and objsubid = 1
  );
