select has_reset_handlers
from {schema}.processors
where name = %(processor)s and version = %(version)s
