-- The last position that the policy allows to remove; null if it does not allow to remove anything.
-- Everything up to it is older than `keep`, and is not among the newest `keep_messages`. See
-- policy_limit() for `max_walked`.
create or replace function {schema}.retention_limit(max_walked bigint default null)
returns {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
declare
  policy {schema}.retention;
begin
  select * into policy from {schema}.retention;
  if policy.keep is null and policy.keep_messages is null then
    return null;
  end if;
  return {schema}.policy_limit(
    (select row(l.removed_transaction_id, l.removed_position)::{schema}.position from {schema}.log as l),
    policy.keep, policy.keep_messages, retention_limit.max_walked
  );
end;
$$;
