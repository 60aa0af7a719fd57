select number, name from {schema}.migrations
