select exists (select from {schema}.archive where name = %(name)s)
