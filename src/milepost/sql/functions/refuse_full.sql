-- Refuse to put `adding` jobs into channels that would then hold more than their max_size. Counts
-- what is committed and the caller's own: producers never wait for each other, so those that put at
-- the same moment may together exceed it by what is in flight (docs/decisions/0008).
create or replace function {schema}.refuse_full(names text[], adding bigint[]) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
  full_one record;
begin
  select c.name, c.max_size, sizes.unfinished, asked.adding
  into full_one
  from unnest(refuse_full.names, refuse_full.adding) as asked (name, adding)
  join {schema}.channels as c on c.name = asked.name collate "C" and c.max_size is not null
  cross join lateral (
    select count(*) as unfinished from (
      (select 1 from {schema}.jobs as j
        where j.channel = c.name and j.status = 'ready' limit c.max_size)
      union all
      (select 1 from {schema}.jobs as j
        where j.channel = c.name and j.status = 'scheduled' limit c.max_size)
      union all
      (select 1 from {schema}.jobs as j
        where j.channel = c.name and j.status = 'running' limit c.max_size)
    ) as unfinished
  ) as sizes
  where sizes.unfinished + asked.adding > c.max_size
  limit 1;
  if found then
    raise exception 'channel % is full: it holds % jobs of at most %, % more were put',
      full_one.name, full_one.unfinished, full_one.max_size, full_one.adding
      using errcode = 'MP005',
        hint = 'Nothing was put. Put again later, or raise its max_size with set_channel().';
  end if;
end;
$$;
