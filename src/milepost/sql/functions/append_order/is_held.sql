-- Whether something is in flight above a horizon, so that it is worth looking again soon. Here:
-- whether positions were drawn that the horizon does not cover yet.
create or replace function {schema}.is_held(horizon {schema}.position) returns boolean
language sql volatile security definer
return coalesce(pg_sequence_last_value('{schema}.messages_position_seq'), 0) > (horizon).position;
