-- For reading long ranges in order. The primary key gives the order: the planner must not sort,
-- start parallel workers or use JIT for a query that it believes to be expensive.
select
  set_config('default_transaction_isolation', 'read committed', false),
  set_config('enable_sort', 'off', false),
  set_config('max_parallel_workers_per_gather', '0', false),
  set_config('jit', 'off', false)
