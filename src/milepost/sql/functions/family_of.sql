-- The family of a channel that has no policy of its own: of the policies that end in a star and
-- whose rest the name begins with, the longest. No row: it belongs to none. Reserved channels never
-- do. In plain SQL, so that it becomes a part of the statement that calls it; one index descent for
-- each character of the name.
create or replace function {schema}.family_of(channel text) returns table (family text)
language sql stable as $$
  select f.name
  from {schema}.channels as f
  where f.name = any(
      array(
        select (left(family_of.channel, length) || '*') collate "C"
        from generate_series(0, char_length(family_of.channel)) as length
      )
    )
    and not starts_with(family_of.channel, 'milepost.')
  order by char_length(f.name) desc
  limit 1
$$;
