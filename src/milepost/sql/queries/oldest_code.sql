-- By way of json: the column does not exist before migration 10.
select coalesce((to_jsonb(log) ->> 'oldest_code')::integer, 0) from {schema}.log as log
