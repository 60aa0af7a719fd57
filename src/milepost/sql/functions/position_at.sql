-- The position after which to read in order to get every message recorded at a time or later. Never
-- above the horizon: a message that is still in flight may have a low position and a late time.
create or replace function {schema}.position_at(recorded_from timestamptz)
returns {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
declare
  horizon constant {schema}.position := {schema}.horizon();
  found_at {schema}.position;
begin
  -- Materialised, so that the BRIN index on recorded_at is used instead of an ordered scan.
  with recorded as materialized (
    select transaction_id, "position"
    from {schema}.messages
    where recorded_at >= position_at.recorded_from
  )
  select transaction_id, "position" - 1
  into found_at
  from recorded
  order by transaction_id, "position"
  limit 1;
  if found_at is null or found_at > horizon then
    return horizon;
  end if;
  return found_at;
end;
$$;
