select number, name from {schema}.applied_migrations
