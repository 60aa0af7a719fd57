-- Record that jobs were removed without having completed, for those who wait for them; see
-- note_endings(). Also for those of whom the removed jobs do not know yet (link_followers): a job
-- that is gone would count as completed.
create or replace function {schema}.note_removals(ids bigint[], ending text) returns void
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  followed constant bigint[] := array(
    select distinct d.after_id
    from unnest(note_removals.ids) as a (id)
    join {schema}.job_dependencies as d on d.after_id = a.id
  );
begin
  if cardinality(followed) = 0 then
    return;
  end if;
  update {schema}.job_dependencies as d set is_linked = true
  where d.after_id = any(followed) and not d.is_linked;
  perform {schema}.note_endings(followed, note_removals.ending);
end;
$$;
