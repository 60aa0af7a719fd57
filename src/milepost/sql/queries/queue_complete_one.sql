-- In a handler's own transaction its session is reset, too.
select {schema}.complete_one(%(id)b, %(attempt)b::integer, %(token)b::bigint, %(result)b)::text
from (
  select case
    when %(resets)s
    then {schema}.reset_session(%(reset_name)s, %(has_keep_alives)s, %(keeps_locks)s)
  end
) as session
