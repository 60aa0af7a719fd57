select transaction_id, "position" from {schema}.append_floor()
