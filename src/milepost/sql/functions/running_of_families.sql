-- How many jobs run in all channels of each of these families. A running job's channel has a row
-- since before the job was taken, which names its family: channels with a policy of their own, and
-- those of longer families, are not counted. Exact for a caller that holds the locks of the
-- families' rows. No name is longer than 255 characters, so the upper bound includes all that begin
-- with the prefix.
create or replace function {schema}.running_of_families(families text[])
returns table (family text, number bigint)
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  return query
  select a.name, counted.number
  from unnest(running_of_families.families) as a (name)
  cross join lateral (
    select count(*) as number
    from {schema}.jobs as r
    join {schema}.channels as c on c.name = r.channel and c.family = a.name collate "C"
    where r.status = 'running'
      and r.channel >= left(a.name, -1) collate "C"
      and r.channel < left(a.name, -1) || repeat(chr(1114111), 256) collate "C"
  ) as counted;
end;
$$;
