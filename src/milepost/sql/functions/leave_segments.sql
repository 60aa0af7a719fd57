-- Remove an instance (or an operator): its segments become free, and the others share them. Returns
-- how many segments it had. Rows that another session is changing are not waited for long: claims
-- expire.
create or replace function {schema}.leave_segments(processor text, version integer, owner text)
returns integer
language plpgsql volatile set lock_timeout = '2s' as $$
#variable_conflict use_column
declare
  released integer;
begin
  perform from {schema}.segments as s
  where s.processor = leave_segments.processor
    and s.version = leave_segments.version
    and leave_segments.owner in (s.owner, s.wanted_by)
  order by s.id
  for update;
  update {schema}.segments as s
  set owner = null, claimed_until = null
  where s.processor = leave_segments.processor
    and s.version = leave_segments.version
    and s.owner = leave_segments.owner;
  get diagnostics released = row_count;
  update {schema}.segments as s
  set wanted_by = null, wanted_until = null
  where s.processor = leave_segments.processor
    and s.version = leave_segments.version
    and s.wanted_by = leave_segments.owner;
  delete from {schema}.instances as i
  where i.processor = leave_segments.processor
    and i.version = leave_segments.version
    and i.owner = leave_segments.owner;
  return released;
end;
$$;
