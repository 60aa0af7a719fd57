-- Set how a channel, or all channels of a prefix (`tenant.*`, `*`), are kept up.
-- `keep_dead_for`: dead jobs are deleted after that time; null: never. `ageing`: a ready job moves
-- one priority up each time it has waited so long; null: never.
create or replace function {schema}.set_upkeep(
  name text, keep_dead_for interval default null, ageing interval default null
) returns void
language plpgsql volatile as $$
#variable_conflict use_column
begin
  perform {schema}.refuse_policy(set_upkeep.name);
  perform {schema}.refuse_argument(checked.name, checked.value::text, 'more than 0')
  from (
    values ('keep_dead_for', set_upkeep.keep_dead_for), ('ageing', set_upkeep.ageing)
  ) as checked (name, value)
  where checked.value <= interval '0';
  insert into {schema}.channel_upkeep (name, keep_dead_for, ageing, next_ageing_at)
  values (
    set_upkeep.name, set_upkeep.keep_dead_for, set_upkeep.ageing,
    clock_timestamp() + coalesce(set_upkeep.ageing, interval '0')
  )
  on conflict (name) do update set
    keep_dead_for = excluded.keep_dead_for,
    ageing = excluded.ageing,
    next_ageing_at = excluded.next_ageing_at;
end;
$$;
