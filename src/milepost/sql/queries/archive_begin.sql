select transaction_id, "position", epoch from {schema}.begin_archiving(%(owner)s)
