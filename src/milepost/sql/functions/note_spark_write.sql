-- Whether this batch of a write from Spark is not in the log yet; it counts as written from now on.
-- The row stays locked until the commit, so that a second driver of the same query waits, and then
-- finds the batch written.
--
-- Spark repeats at most the batch that it began last. An older one comes from an old copy of its
-- checkpoint directory, and so may one with another number of rows: to skip either would lose
-- messages. `may_differ`: the query does not give the same rows each time, and the caller knows it.
--
-- With the privileges of the owner: with its own, a role could hold or move what others have written.
create or replace function {schema}.note_spark_write(
  query uuid, batch bigint, rows bigint, may_differ boolean
) returns boolean
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  written record;
begin
  perform {schema}.appending_role(note_spark_write.query);
  select w.batch, w.rows into written
  from {schema}.spark_writes as w
  where w.query = note_spark_write.query
  for update;
  if not found then
    raise exception 'the write % of Spark is not registered', note_spark_write.query
      using errcode = 'MP042',
      hint = 'The database was restored since its rows were staged. Nothing was written; start the query again.';
  end if;
  if written.batch is null or written.batch < note_spark_write.batch then
    update {schema}.spark_writes as w
    set batch = note_spark_write.batch, rows = note_spark_write.rows, used_at = clock_timestamp()
    where w.query = note_spark_write.query;
    return true;
  end if;
  if written.batch > note_spark_write.batch then
    raise exception 'batch % of the streaming query % comes after batch %, which is in the log already',
      note_spark_write.batch, note_spark_write.query, written.batch
      using errcode = 'MP044',
      hint = 'Its checkpoint directory is an older copy, or another driver has continued with a copy of it. '
        'Nothing was written. Restore the newest directory. With a new, empty directory the query is '
        'another one, and writes everything that its source gives.';
  end if;
  if written.rows <> note_spark_write.rows and not may_differ then
    raise exception 'batch % of the streaming query % has % rows, but it is in the log already, with % rows',
      note_spark_write.batch, note_spark_write.query, note_spark_write.rows, written.rows
      using errcode = 'MP045',
      hint = 'Either its checkpoint directory is an older copy: restore the newest. Or the query does '
        'not give the same rows each time: with the option repeatedBatch=skip, the batch counts as '
        'written. Nothing was written.';
  end if;
  return false;
end;
$$;
