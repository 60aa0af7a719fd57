select log_order, functions_digest from {schema}.log
