-- Drop the staging tables of writes from Spark that nobody has used for a week: their driver was
-- killed, or the query rests. A query that begins to write again creates its table again; its task
-- waits for the row that is locked here. A table in which somebody works now is left.
create or replace function {schema}.drop_old_stagings() returns void
language plpgsql volatile as $$
declare
  old record;
begin
  for old in
    select w.query, w.is_stream, w.staging
    from {schema}.spark_writes as w
    where w.used_at < clock_timestamp() - interval '7 days'
      and (not w.is_stream or to_regclass(format('{schema}.%I', w.staging)) is not null)
    for update skip locked
  loop
    begin
      if to_regclass(format('{schema}.%I', old.staging)) is not null then
        execute format('lock table {schema}.%I in access exclusive mode nowait', old.staging);
        execute format('drop table {schema}.%I', old.staging);
      end if;
      -- What a stream has written last stays known: Spark may repeat that batch at any time.
      delete from {schema}.spark_writes as w where w.query = old.query and not w.is_stream;
    exception
      when lock_not_available then
        null;
    end;
  end loop;
end;
$$;
