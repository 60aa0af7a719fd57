-- For reading long ranges in order. The primary key gives the order: the planner must not sort,
-- start parallel workers or use JIT for a query that it believes to be expensive. For the session, or
-- for a transaction alone: behind a pooler the session is somebody else's afterwards.
select
  set_config('default_transaction_isolation', 'read committed', %(is_local)s),
  set_config('enable_sort', 'off', %(is_local)s),
  set_config('max_parallel_workers_per_gather', '0', %(is_local)s),
  set_config('jit', 'off', %(is_local)s)
