update {schema}.instances
set at_most = %(at_most)s
where processor = %(processor)s and version = %(version)s and owner = %(owner)s
