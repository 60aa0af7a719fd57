-- For a session that a handler has used. First the role: without its own, the session may not even
-- call the function. The id tells whether it is still the transaction that the handler was given.
reset session authorization;
reset role;
select
  {schema}.reset_session(%(reset_name)s, %(has_keep_alives)s, %(keeps_locks)s),
  pg_current_xact_id_if_assigned()::text
