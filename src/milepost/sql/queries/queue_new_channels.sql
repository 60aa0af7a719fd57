-- The channels of a pattern whose jobs were put after the one with this id, as far as these are
-- ready; and the last id that was drawn before. At most so many jobs are looked at. A null id: none
-- is looked for.
select array(
  select distinct new.channel::text
  from (
    select j.channel, j.status from {schema}.jobs as j
    where j.id > %(after)s
    order by j.id
    limit %(max_count)s
  ) as new
  where new.status = 'ready' and starts_with(new.channel, rtrim(%(pattern)s, '*'))
    and not starts_with(new.channel, 'milepost.')
), case
  when has_sequence_privilege('{schema}.jobs_id_seq', 'usage, select')
  then coalesce(pg_sequence_last_value('{schema}.jobs_id_seq'), 0)
end
