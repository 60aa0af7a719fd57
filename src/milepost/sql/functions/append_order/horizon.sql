-- The last message below which nothing new can appear: not above the sequence's last value, and not
-- above the lowest floor that a transaction in flight holds (see before_append).
--
-- The sequence is read first. A transaction that takes a lock after the locks were read draws
-- later, hence above the value of the sequence; one that released its lock before is visible to any
-- snapshot taken from now on. So the rows must be read by a later statement.
create or replace function {schema}.horizon() returns {schema}.position
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  log_sequence constant regclass := '{schema}.messages_position_seq';
  newest bigint;
  held bigint[];
  drawn bigint;
begin
  if pg_is_in_recovery() then
    raise exception 'a log in append order cannot be read on a standby'
      using errcode = 'MP002',
      hint = 'Its horizon depends on locks of the primary: read there, or create the log with --order transaction.';
  end if;
  perform {schema}.refuse_unsafe_read();

  perform {schema}.refuse_moved_once();
  perform {schema}.refuse_foreign_rows();
  newest := coalesce(pg_sequence_last_value(log_sequence), 0);

  select array_agg(floor) into held from {schema}.floors_held();
  if held is null then
    return {schema}.last_message(row(0, newest)::{schema}.position);
  end if;

  -- Only 32 bits of a floor fit into the key. Every floor is at most the current value of the
  -- sequence, so that counting back from there undoes the wrap-around.
  drawn := pg_sequence_last_value(log_sequence);
  select least(newest, min(coalesce(drawn, 0) - ((coalesce(drawn, 0) - floor) & 4294967295)))
  into newest
  from unnest(held) as floor;
  return {schema}.last_message(row(0, newest)::{schema}.position);
end;
$$;
