select log_order, functions_checksum from {schema}.log
