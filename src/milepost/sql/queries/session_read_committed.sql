-- Independent of the server's default: above READ COMMITTED the log cannot be read, and what is
-- read in a transaction may be older than a lock that it waited for.
select set_config('default_transaction_isolation', 'read committed', false)
