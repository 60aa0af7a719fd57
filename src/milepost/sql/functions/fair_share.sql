-- The fair share of a living instance; null if it is not alive. n segments and k instances in the
-- order of their names: the r-th has n / k, and one more if r < n % k. An instance that takes at
-- most so many (`instances.at_most`) has no more than that, and the others share the rest. What is
-- left where all have such a limit is shared by all: nobody else would take it.
create or replace function {schema}.fair_share(processor text, version integer, owner text)
returns integer
language plpgsql stable as $$
#variable_conflict use_column
declare
  unshared bigint := (
    select count(*) from {schema}.segments as s
    where s.processor = fair_share.processor and s.version = fair_share.version
  );
  instance record;
  mine record;
  part bigint;
  share bigint;
begin
  for instance in
    select i.owner, i.at_most, count(*) over () as number,
      row_number() over (order by i.owner collate "C") - 1 as rank,
      -- The lowest limits first: what they leave is shared by those that come after them.
      row_number() over (order by i.at_most nulls last, i.owner collate "C") - 1 as turn
    from {schema}.instances as i
    where i.processor = fair_share.processor
      and i.version = fair_share.version
      and i.alive_until > clock_timestamp()
    order by turn
  loop
    part := ceil(unshared / (instance.number - instance.turn)::numeric);
    part := least(part, instance.at_most);
    unshared := unshared - part;
    if instance.owner = fair_share.owner then
      mine := instance;
      share := part;
    end if;
  end loop;
  if share is null then
    return null;
  end if;
  return share + unshared / mine.number + (mine.rank < unshared % mine.number)::integer;
end;
$$;
