-- {table} is filled in by milepost.testing.
select pg_catalog.to_jsonb(t)::text from {table} as t
