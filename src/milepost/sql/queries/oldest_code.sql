select oldest_code from {schema}.log
