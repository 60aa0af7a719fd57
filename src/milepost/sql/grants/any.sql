-- Every activity: find the schema, and check whether it fits the code. Functions run with the
-- privileges of the caller, so the grants on tables, columns and sequences decide. PUBLIC may
-- execute the functions, unless this was revoked.
grant usage on schema {schema} to {role};
grant execute on all functions in schema {schema} to {role};
grant select (number) on {schema}.migrations to {role};
grant select on {schema}.log to {role};
