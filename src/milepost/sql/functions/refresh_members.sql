-- After a policy was added or removed: each channel without a policy of its own belongs to the
-- family that is now its longest. Rows that are not needed are deleted. A channel in which jobs run
-- gets its row here, so that a limit over the family counts them. The caller holds the lock that
-- keeps takers out. `name`: of the channel or the family.
create or replace function {schema}.refresh_members(name text) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
  prefix constant text collate "C" := rtrim(refresh_members.name, '*');
begin
  update {schema}.channels as c
  set family = f.family
  from {schema}.channels as m
  left join lateral {schema}.family_of(m.name) as f on true
  where c.name = m.name and not m.is_policy and starts_with(m.name, prefix)
    and f.family is distinct from m.family;
  delete from {schema}.channels as c
  where not c.is_policy and not c.is_paused and c.family is null and starts_with(c.name, prefix);
  perform {schema}.join_families(array(
    select distinct j.channel from {schema}.jobs as j
    where j.status = 'running' and j.channel >= prefix and starts_with(j.channel, prefix)
  ));
end;
$$;
