-- The last position that the policy wants to be archived: what is older than `archive_after`; without
-- that, what may be removed; if nothing may, all. Null without an archive. See policy_limit() for
-- `max_walked`.
create or replace function {schema}.archive_limit(max_walked bigint default null)
returns {schema}.position
language plpgsql volatile as $$
#variable_conflict use_column
declare
  policy {schema}.retention;
begin
  select * into policy from {schema}.retention;
  if policy.archive is null then
    return null;
  end if;
  return {schema}.policy_limit(
    {schema}.archive_end(),
    coalesce(policy.archive_after, policy.keep),
    case when policy.archive_after is null then policy.keep_messages end,
    archive_limit.max_walked
  );
end;
$$;
