-- Through json: before migration 10 there is no such column.
select coalesce((to_jsonb(log) ->> 'oldest_code')::integer, 0) from {schema}.log as log
