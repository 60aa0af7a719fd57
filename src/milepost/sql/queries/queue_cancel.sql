select verdict::text from {schema}.cancel(%(ids)b::bigint[]) as verdict
