select id from {schema}.messages
