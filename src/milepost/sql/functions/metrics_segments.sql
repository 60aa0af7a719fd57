-- How many segments of each processor are in which state, for metrics(): claimed; unclaimed; wanted
-- by an operator; failing: its last attempt ended with an error and its checkpoint has not moved since. Each
-- is in one state.
create or replace function {schema}.metrics_segments() returns json
language sql volatile
begin atomic
  select coalesce(json_agg(
    json_build_object(
      'processor', counted.processor,
      'version', counted.version,
      'claimed', counted.claimed,
      'unclaimed', counted.unclaimed,
      'wanted', counted.wanted,
      'failing', counted.failing
    )
    order by counted.processor, counted.version
  ), '[]')
  from (
    select
      each.processor,
      each.version,
      count(*) filter (where each.state = 'claimed') as claimed,
      count(*) filter (where each.state = 'unclaimed') as unclaimed,
      count(*) filter (where each.state = 'wanted') as wanted,
      count(*) filter (where each.state = 'failing') as failing
    from (
      select
        s.processor,
        s.version,
        case
          when s.wanted_until > clock_timestamp() then 'wanted'
          when s.last_error_at > c.updated_at then 'failing'
          when s.claimed_until > clock_timestamp() then 'claimed'
          else 'unclaimed'
        end as state
      from {schema}.segments as s
      join {schema}.checkpoints as c
        on c.processor = s.processor and c.version = s.version and c.segment = s.id
    ) as each
    group by each.processor, each.version
  ) as counted;
end;
