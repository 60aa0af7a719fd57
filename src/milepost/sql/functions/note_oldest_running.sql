-- Raise the hint `oldest_running` of channels that the caller has locked, where it has fallen far
-- behind. True for ever, because `taken` is drawn under the channel's lock: what runs later is
-- higher. Seldom, so that the row does not bloat itself.
create or replace function {schema}.note_oldest_running(names text[], mark bigint) returns void
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  update {schema}.channels as c
  set oldest_running = coalesce(
    (
      select r.taken from {schema}.jobs as r
      where r.status = 'running' and r.channel = c.name and r.taken >= c.oldest_running
      order by r.channel, r.taken limit 1
    ),
    note_oldest_running.mark
  )
  where c.name = any(note_oldest_running.names collate "C")
    and c.max_concurrency is not null
    and c.oldest_running < note_oldest_running.mark - 5000;
end;
$$;
