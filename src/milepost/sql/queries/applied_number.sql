select max(number) from {schema}.migrations
