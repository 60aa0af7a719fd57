-- The max_size of a channel, its own or its family's; no row if it has none. Usually no family has
-- one, and then none is looked for. In plain SQL, so that it becomes a part of the statement that
-- calls it.
create or replace function {schema}.max_size_of(channel text) returns table (max_size integer)
language sql stable as $$
  select c.max_size
  from {schema}.channels as c
  where c.name = max_size_of.channel collate "C" and c.max_size is not null
  union all
  select f.max_size
  from {schema}.family_of(
    case
      when exists (
        select from {schema}.channels as s where right(s.name, 1) = '*' and s.max_size is not null
      )
      then max_size_of.channel
    end
  ) as found
  join {schema}.channels as f on f.name = found.family collate "C" and f.max_size is not null
  where not exists (
    select from {schema}.channels as c
    where c.name = max_size_of.channel collate "C" and c.is_policy
  )
$$;
