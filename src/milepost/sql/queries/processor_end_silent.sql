select segment, owner, silent_seconds, pid
from {schema}.end_silent_sessions(%(processor)s, %(version)s, %(claim_seconds)s)
