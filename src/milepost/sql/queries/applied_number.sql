select max(number) from {schema}.applied_migrations
