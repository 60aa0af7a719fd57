-- All versions: a swap does not end a pause.
update {schema}.pipelines
set is_paused = %(is_paused)s
where name = %(pipeline)s
