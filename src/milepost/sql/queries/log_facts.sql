-- Through json: before migration 10 there is no such column.
select log_order, to_jsonb(log) ->> 'functions_digest' from {schema}.log as log
