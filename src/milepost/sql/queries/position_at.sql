select transaction_id, "position" from {schema}.position_at(%(recorded_from)s)
