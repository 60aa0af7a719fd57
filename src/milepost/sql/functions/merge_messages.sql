-- Append what the given task attempts have staged to the log, in the order of the attempts and of
-- their rows. A column that a pipeline does not return is null in staging.
create or replace function {schema}.merge_messages(
  staging text, default_topic text, attempts bigint[]
) returns bigint
language plpgsql volatile as $$
declare
  written bigint;
begin
  execute format(
    $sql$
    insert into {schema}.messages (id, topic, key, type, data, metadata)
    select {schema}.uuid7(), coalesce(topic, $2), key, type, data::json, coalesce(metadata, '{}')::json
    from {schema}.%I
    cross join lateral {schema}.refuse_oversized(data::json, coalesce(metadata, '{}')::json)
    where _attempt = any($1)
    order by array_position($1, _attempt), _row
    $sql$,
    staging
  ) using attempts, default_topic;
  get diagnostics written = row_count;
  return written;
end;
$$;
