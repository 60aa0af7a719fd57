-- By way of json: the column does not exist before migration 10.
select log_order, to_jsonb(log) ->> 'functions_digest' from {schema}.log as log
