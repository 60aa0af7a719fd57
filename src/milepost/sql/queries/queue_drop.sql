delete from {schema}.jobs where id = any(%(ids)s::bigint[]) and status = 'dead' returning id
