delete from {schema}.dead_letters
where id = any(%(ids)s::bigint[])
