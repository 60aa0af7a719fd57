update {schema}.segments
set last_error = %(error)s, last_error_at = clock_timestamp()
where processor = %(processor)s and version = %(version)s and id = %(segment)s
