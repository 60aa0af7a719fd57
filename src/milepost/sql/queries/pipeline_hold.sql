-- Ask the driver of this version to start no batch for a while. It ends by the server's clock, even
-- if the session that asked is gone.
update {schema}.pipelines
set hold_until = clock_timestamp() + make_interval(secs => %(seconds)s)
where name = %(pipeline)s and version = %(version)s
