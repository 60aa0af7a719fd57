-- In a handler's own transaction its session is reset, too.
select verdict::text
from (
  select case
    when %(resets)s
    then {schema}.reset_session(%(reset_name)s, %(has_keep_alives)s, %(keeps_locks)s)
  end
) as session
cross join {schema}.defer(
  %(ids)b::bigint[], %(attempts)b::integer[], %(delays)b::interval[], %(run_ats)b::timestamptz[],
  %(states)b::bytea[], %(tokens)b::bigint[]
) as verdict
