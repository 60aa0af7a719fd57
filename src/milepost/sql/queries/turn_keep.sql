-- For a transaction whose purpose is to hold a lock: no time limit of the server ends it. Not all
-- versions have both settings.
select set_config(name, '0', true)
from pg_settings
where name in ('idle_in_transaction_session_timeout', 'transaction_timeout')
