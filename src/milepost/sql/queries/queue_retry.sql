select verdict::text from {schema}.retry(%(ids)b::bigint[]) as verdict
