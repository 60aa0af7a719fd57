-- A position below every one that the current transaction will draw from now on. A bound body,
-- resolved when it is created, so that SECURITY DEFINER needs no search_path.
create or replace function {schema}.append_floor() returns {schema}.position
language sql volatile security definer
return row(0, coalesce(pg_sequence_last_value('{schema}.messages_position_seq'), 0))
  ::{schema}.position;
