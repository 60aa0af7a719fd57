select consumer, version, segment, transaction_id, "position" from {schema}.retention_gates()
