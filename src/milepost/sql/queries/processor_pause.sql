update {schema}.processors
set is_paused = %(is_paused)s
where name = %(processor)s and version = %(version)s
