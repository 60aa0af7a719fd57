-- Remove the policy of a channel or of a family; returns whether there was one. Then the limits of
-- the family that it belongs to apply, or none. A pause is a part of the policy. Takes effect
-- immediately, like set_channel().
create or replace function {schema}.unset_channel(name text) returns boolean
language plpgsql volatile as $$
#variable_conflict use_column
declare
  was_set boolean;
begin
  perform {schema}.refuse_reserved(array[unset_channel.name]);
  lock table {schema}.channels in exclusive mode;
  delete from {schema}.channels as c
  where c.name = unset_channel.name and (c.is_policy or c.is_paused);
  was_set := found;
  perform {schema}.refresh_members(unset_channel.name);
  perform pg_notify(concat({channel}, '_queue'), '');
  return was_set;
end;
$$;
