-- Every gauge in one round trip, as one document: what `milepost status`, `doctor` and `metrics`, the
-- exporters, the listings and the dashboard show. Only the named sections; null: all.
-- `max_channels`: the deepest channels are listed, the others are one sum.
--
-- It reads no data, metadata, content, key, state, result or error: the role `metrics` sees no payload.
--
-- The work is bounded, whatever is in the log and in the queue (docs/decisions/0046). What is counted
-- up to a bound is exact below it, and an estimate above; each count says which. `max_counted` is that
-- bound, for a look that may take longer. Volatile, so that each
-- section has its own snapshot, as the horizon needs.
create or replace function {schema}.metrics(
  sections text[] default null,
  max_channels integer default 50,
  max_counted integer default null
) returns json
language plpgsql volatile as $$
declare
  known constant text[] := array['log', 'processors', 'segments', 'pipelines', 'queue', 'retention'];
  wanted constant text[] := coalesce(metrics.sections, known);
begin
  if not wanted <@ known then
    raise exception 'metrics has no section %, only %',
      (select string_agg(named, ', ') from unnest(wanted) as named where named <> all(known)),
      array_to_string(known, ', ')
      using errcode = 'invalid_parameter_value';
  end if;
  return json_build_object(
    'at', extract(epoch from clock_timestamp())::float8,
    'log', case when 'log' = any(wanted) then {schema}.metrics_log(metrics.max_counted) end,
    'processors', case
      when 'processors' = any(wanted) then {schema}.metrics_processors(metrics.max_counted)
    end,
    'segments', case when 'segments' = any(wanted) then {schema}.metrics_segments() end,
    'pipelines', case
      when 'pipelines' = any(wanted) then {schema}.metrics_pipelines(metrics.max_counted)
    end,
    'queue', case
      when 'queue' = any(wanted)
        then {schema}.metrics_queue(metrics.max_channels, metrics.max_counted)
    end,
    'retention', case when 'retention' = any(wanted) then {schema}.metrics_retention() end
  );
end;
$$;
