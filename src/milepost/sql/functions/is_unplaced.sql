-- Whether positions were given and nobody knows where: the log may have been restored since.
create or replace function {schema}.is_unplaced() returns boolean
language sql volatile as $$
  select log.database_oid is null and (
    pg_sequence_last_value('{schema}.messages_position_seq') is not null
    or log.removed_position > 0
    or exists (select from {schema}.messages)
  )
  from {schema}.log as log
$$;
