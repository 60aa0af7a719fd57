-- The last position that is to be archived now, as far as `max_walked` messages show it: the archiver is behind
-- up to there, and not with what the policy keeps out of the archive. As archive_limit(), but the
-- newest `keep_messages` are found by positions and not counted one by one, which would take as long
-- as there are messages to keep.
create or replace function {schema}.archivable_up_to(max_walked bigint)
returns {schema}.position
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  policy {schema}.retention;
  archived constant {schema}.position := {schema}.archive_end();
  up_to {schema}.position;
begin
  select * into policy from {schema}.retention;
  if policy.archive is null then
    return archived;
  end if;
  up_to := {schema}.policy_limit(
    archived, coalesce(policy.archive_after, policy.keep), null, archivable_up_to.max_walked
  );
  if policy.archive_after is not null or policy.keep_messages is null then
    return up_to;
  end if;
  return coalesce(
    (
      select least(
        up_to,
        row(m.transaction_id, m."position" - policy.keep_messages)::{schema}.position
      )
      from {schema}.messages as m order by m.transaction_id desc, m."position" desc limit 1
    ),
    archived
  );
end;
$$;
