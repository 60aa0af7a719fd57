-- The key of an advisory lock that says which instance a session or a transaction works for. Shared,
-- and never waited for: it only shows in pg_locks whose session holds something else.
create or replace function {schema}.owner_key(owner text) returns bigint
language sql immutable parallel safe
return hashtextextended('milepost.owner.{schema} ' || owner, 0);
