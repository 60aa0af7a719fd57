-- Ask whoever runs this version to begin no batch for a while. It ends by the server's clock, also if
-- the one who asked is gone.
update {schema}.pipelines
set hold_until = clock_timestamp() + make_interval(secs => %(seconds)s)
where name = %(pipeline)s and version = %(version)s
