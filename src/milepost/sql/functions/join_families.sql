-- Give a row to each of these channels that has none, has jobs and belongs to a family: its lock and
-- its state. Called before the first take from a channel, never by a put. Another session may be
-- adding the same row: this waits until that one has committed.
--
-- With the privileges of the owner: a worker may not add policies. It can add nothing here but what
-- the policies of families and the jobs that are there say.
create or replace function {schema}.join_families(channels text[]) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  insert into {schema}.channels (name, is_policy, family)
  select distinct a.name, false, f.family
  from unnest(join_families.channels) as a (name)
  cross join lateral {schema}.family_of(a.name) as f
  where not exists (select from {schema}.channels as c where c.name = a.name collate "C")
    and (
      exists (
        select from {schema}.jobs as j
        where j.status = 'ready' and j.channel = a.name collate "C"
      )
      or exists (
        select from {schema}.jobs as j
        where j.status = 'running' and j.channel = a.name collate "C"
      )
    )
  order by a.name
  on conflict (name) do nothing;
end;
$$;
