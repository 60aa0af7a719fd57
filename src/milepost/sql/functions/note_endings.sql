-- Record that jobs have ended which others wait for, and notify the workers, whose next take tells
-- the others (tend_followers). `ending` is for jobs that are deleted; the status says it otherwise.
-- An insert, so that an end never waits for anybody who waits for it, nor for another end.
create or replace function {schema}.note_endings(ids bigint[], ending text default null)
returns void
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  insert into {schema}.job_endings (job_id, ending)
  select a.id, coalesce(note_endings.ending, j.status::text)
  from unnest(note_endings.ids) as a (id)
  left join {schema}.jobs as j on j.id = a.id;
  perform pg_notify(concat({channel}, '_queue'), '');
end;
$$;
