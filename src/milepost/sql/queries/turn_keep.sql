-- For a transaction that is there to hold a lock: no time limit of the server's ends it. Not all
-- versions know both.
select set_config(name, '0', true)
from pg_settings
where name in ('idle_in_transaction_session_timeout', 'transaction_timeout')
