-- For a session that a handler has used. First the role: without its own, the session may not even
-- call the function.
reset session authorization;
reset role;
select {schema}.reset_session(%(reset_name)s, %(has_keep_alives)s, %(keeps_locks)s)
