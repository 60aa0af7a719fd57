-- True, or an error if messages after this position were removed or lost. Lost first: who is told that
-- messages were removed reads them from the archive, and would not learn that others are lost.
create or replace function {schema}.refuse_removed(after {schema}.position) returns boolean
language sql stable
return {schema}.refuse_lost(after) and {schema}.refuse_gone(after);
