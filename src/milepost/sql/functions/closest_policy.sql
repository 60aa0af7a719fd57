-- Of the names of policies, the one that applies to a channel: its own, else the longest prefix and
-- a star (`tenant.*`). Null if none does.
create or replace function {schema}.closest_policy(channel text, names text[]) returns text
language sql immutable parallel safe
return (
  select p.name from unnest(closest_policy.names) as p (name)
  where p.name = closest_policy.channel
    or right(p.name, 1) = '*' and starts_with(closest_policy.channel, left(p.name, -1))
  order by p.name = closest_policy.channel desc, char_length(p.name) desc
  limit 1
);
