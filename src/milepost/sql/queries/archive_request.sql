select wanted.transaction_id, wanted."position"
from {schema}.request_archiving() as wanted
