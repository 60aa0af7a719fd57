select extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8
