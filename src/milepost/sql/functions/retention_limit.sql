-- The last position that the policy allows to remove; null without a policy. Everything up to it is
-- older than `keep`, and is not among the newest `keep_messages`.
create or replace function {schema}.retention_limit() returns {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
declare
  policy {schema}.retention;
  by_age {schema}.position;
  by_number {schema}.position;
begin
  select * into policy from {schema}.retention;
  if not found then
    return null;
  end if;
  if policy.keep is not null then
    by_age := {schema}.last_message({schema}.position_at(clock_timestamp() - policy.keep));
  end if;
  if policy.keep_messages is not null then
    by_number := coalesce(
      (
        select row(m.transaction_id, m."position")::{schema}.position
        from {schema}.messages as m
        order by m.transaction_id desc, m."position" desc
        offset policy.keep_messages limit 1
      ),
      row(0, 0)::{schema}.position
    );
    -- A message above the horizon may still get neighbours below it.
    by_number := {schema}.last_message(least(by_number, {schema}.horizon()));
  end if;
  return least(by_age, by_number);
end;
$$;
