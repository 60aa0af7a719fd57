-- What was prepared by PREPARE in SQL, not through the protocol.
select p.name from pg_prepared_statements as p where p.from_sql
