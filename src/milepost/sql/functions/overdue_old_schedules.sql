-- Schedules that the release before this one has as jobs, and that nobody ticks: its processes are
-- gone. By the index of unique keys, however many jobs there are. Drop this in the next release.
create or replace function {schema}.overdue_old_schedules(late_for interval)
returns table (name text, content bytea)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
  select j.unique_key::text, j.content
  from {schema}.jobs as j
  where j.channel = 'milepost.schedules' and j.unique_key is not null
    and j.status in ('ready', 'scheduled', 'running')
    and coalesce(j.locked_until, j.run_at) < statement_timestamp() - late_for
  order by j.channel, j.unique_key;
end;
$$;
