-- Refuse to put `adding` jobs into channels that would then exceed their max_size. Counts committed
-- jobs and those of the caller: producers never wait for each other, so concurrent puts may
-- together exceed the limit by what is in flight (docs/decisions/0008).
--
-- A long channel is not counted at every put (docs/decisions/0023). When it was counted last, it
-- had so many jobs; since then it has got no more than ids were drawn, in all channels. It is
-- counted again when this bound exceeds the limit. Dead jobs are in the bound, because retry()
-- makes them ready without a new id.
create or replace function {schema}.refuse_full(names text[], adding bigint[]) returns void
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  counted_from constant integer := 1000;  -- fewer are counted quickly
  asked record;
  drawn bigint;  -- the last id
  unfinished bigint;
begin
  for asked in
    select a.name, a.adding, sized.max_size
    from unnest(refuse_full.names, refuse_full.adding) as a (name, adding)
    cross join lateral {schema}.max_size_of(a.name) as sized
  loop
    -- Before the count: what is drawn meanwhile may be counted twice, but is not left out.
    drawn := coalesce(pg_sequence_last_value('{schema}.jobs_id_seq'), 0);
    continue when exists (
      select from (
        select s.jobs, s.last_id from {schema}.channel_sizes as s
        where s.channel = asked.name collate "C" and s.last_id <= drawn
        order by s.last_id desc
        limit 1
      ) as newest
      where newest.jobs + drawn - newest.last_id + asked.adding <= asked.max_size
    );
    unfinished := {schema}.count_jobs(
      asked.name, array['ready', 'scheduled', 'waiting', 'running']::{schema}.job_status[],
      asked.max_size
    );
    if unfinished + asked.adding > asked.max_size then
      raise exception 'channel % is full: it holds % jobs of at most %, % more were put',
        asked.name, unfinished, asked.max_size, asked.adding
        using errcode = 'MP005',
          hint = 'Nothing was put. Put again later, or raise its max_size with set_channel().';
    end if;
    if unfinished >= counted_from then
      insert into {schema}.channel_sizes (channel, last_id, jobs)
      values (
        asked.name, drawn,
        unfinished + {schema}.count_jobs(
          asked.name, array['dead']::{schema}.job_status[], asked.max_size
        )
      );
    end if;
  end loop;
end;
$$;
