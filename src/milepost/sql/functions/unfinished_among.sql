-- Those of the given jobs that have not completed; null for none. A job that is gone has completed,
-- as far as anybody can tell. An id that was never given to a job is an error, and so is one whose
-- put has not committed.
create or replace function {schema}.unfinished_among(ids bigint[]) returns bigint[]
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  newest constant bigint := case
    when cardinality(unfinished_among.ids) > 0
    then coalesce(pg_sequence_last_value('{schema}.jobs_id_seq'), 0)
  end;
  wrong bigint;
  unfinished bigint[];
  unseen bigint[];
begin
  if newest is null then
    return null;
  end if;
  select coalesce(a.id, 0) into wrong
  from unnest(unfinished_among.ids) as a (id)
  where a.id is null or a.id not between 1 and newest
  limit 1;
  if found then
    raise exception 'there has never been a job %, and a job was to wait for it', wrong
      using errcode = 'MP009',
        hint = 'Nothing was put. `after` takes the ids that a put has returned.';
  end if;
  for look in 1..2 loop
    select
      array_agg(distinct j.id) filter (where j.status <> 'done'),
      array_agg(a.id) filter (where j.id is null)
    into unfinished, unseen
    from unnest(unfinished_among.ids) as a (id)
    left join {schema}.jobs as j on j.id = a.id;
    exit when unseen is null or look = 2;
    perform {schema}.refuse_uncommitted(unseen);
    -- Again with a new snapshot: what was in flight may have committed.
  end loop;
  return unfinished;
end;
$$;
