-- The quotas of channels, so lowered that each family takes no more than the limit over all its
-- channels leaves: an equal share for each of its channels in this take, the first ones one more.
-- `families`: of each channel, null where there is no such limit. The caller holds the locks of the
-- families' rows.
create or replace function {schema}.share_totals(families text[], quotas integer[])
returns integer[]
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  shared integer[];
begin
  select array_agg(
    case
      when asked.family is null then asked.quota
      else least(
        asked.quota,
        rooms.room / asked.channels + (asked.rank <= rooms.room % asked.channels)::integer
      )
    end
    order by asked.turn
  )
  into shared
  from (
    select
      a.*,
      row_number() over (partition by a.family order by a.turn) as rank,
      count(*) over (partition by a.family) as channels
    from unnest(share_totals.families, share_totals.quotas) with ordinality
      as a (family, quota, turn)
  ) as asked
  left join (
    select f.name, greatest(0, f.max_concurrency_total - counted.number) as room
    from {schema}.running_of_families(
      array(select distinct a.name from unnest(share_totals.families) as a (name)
        where a.name is not null)
    ) as counted
    join {schema}.channels as f on f.name = counted.family collate "C"
  ) as rooms on rooms.name = asked.family collate "C";
  return shared;
end;
$$;
