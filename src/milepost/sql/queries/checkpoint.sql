select transaction_id, "position", epoch, owner
from {schema}.checkpoints
where processor = %(processor)s and version = %(version)s and segment = %(segment)s
