-- No position above this one was ever given, not even to a transaction that was rolled back.
create or replace function {schema}.newest_given() returns {schema}.position
language sql volatile
return row(0, coalesce(pg_sequence_last_value('{schema}.messages_position_seq'), 0))
  ::{schema}.position;
