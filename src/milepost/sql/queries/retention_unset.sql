delete from {schema}.retention
