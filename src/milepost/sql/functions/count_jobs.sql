-- How many jobs of a channel have one of these statuses; of each status, at most `max_count` are
-- counted. One status after the other: each has an index of its own.
create or replace function {schema}.count_jobs(
  channel text, statuses {schema}.job_status[], max_count integer
) returns bigint
language plpgsql volatile as $$
#variable_conflict use_column
declare
  number bigint;
begin
  select count(*) into number from (
    (select 1 from {schema}.jobs as j
      where 'ready' = any(count_jobs.statuses)
        and j.channel = count_jobs.channel collate "C" and j.status = 'ready'
      limit count_jobs.max_count)
    union all
    (select 1 from {schema}.jobs as j
      where 'scheduled' = any(count_jobs.statuses)
        and j.channel = count_jobs.channel collate "C" and j.status = 'scheduled'
      limit count_jobs.max_count)
    union all
    (select 1 from {schema}.jobs as j
      where 'waiting' = any(count_jobs.statuses)
        and j.channel = count_jobs.channel collate "C" and j.status = 'waiting'
      limit count_jobs.max_count)
    union all
    (select 1 from {schema}.jobs as j
      where 'running' = any(count_jobs.statuses)
        and j.channel = count_jobs.channel collate "C" and j.status = 'running'
      limit count_jobs.max_count)
    union all
    (select 1 from {schema}.jobs as j
      where 'dead' = any(count_jobs.statuses)
        and j.channel = count_jobs.channel collate "C" and j.status = 'dead'
      limit count_jobs.max_count)
  ) as counted;
  return number;
end;
$$;
