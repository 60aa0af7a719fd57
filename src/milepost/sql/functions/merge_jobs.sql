-- Put what the given task attempts have staged into the queue, in the order of the attempts and of
-- their rows. A column that a pipeline does not return is null in staging.
create or replace function {schema}.merge_jobs(
  staging text, default_channel text, attempts bigint[]
) returns bigint
language plpgsql volatile as $$
declare
  written bigint;
begin
  execute format(
    $sql$
    select count(*) from (
      select
        array_agg(coalesce(channel, $2) order by array_position($1, _attempt), _row) as channels,
        array_agg(
          convert_to((content::json)::text, 'UTF8') order by array_position($1, _attempt), _row
        ) as contents,
        array_agg(run_at order by array_position($1, _attempt), _row) as run_ats,
        array_agg(priority order by array_position($1, _attempt), _row) as priorities,
        array_agg(max_attempts order by array_position($1, _attempt), _row) as max_attempts,
        array_agg(unique_key order by array_position($1, _attempt), _row) as unique_keys
      from {schema}.%I
      where _attempt = any($1)
    ) as staged
    cross join lateral {schema}.put_many_bytes(
      staged.channels, staged.contents, staged.run_ats, staged.priorities, staged.max_attempts,
      staged.unique_keys
    )
    $sql$,
    staging
  ) into written using attempts, default_channel;
  return written;
end;
$$;
