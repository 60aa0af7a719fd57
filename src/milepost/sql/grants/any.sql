-- Every activity: find the schema, and see whether it fits the code. Functions run with the rights
-- of the caller, so that what is granted on tables, columns and sequences decides; PUBLIC may
-- execute them unless somebody took that away.
grant usage on schema {schema} to {role};
grant execute on all functions in schema {schema} to {role};
grant select (number) on {schema}.applied_migrations, {schema}.migrations to {role};
grant select on {schema}.log to {role};
