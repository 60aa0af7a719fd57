select message_id
from {schema}.inbox
where processor = %(processor)s and version = %(version)s and message_id = any(%(ids)s::uuid[])
