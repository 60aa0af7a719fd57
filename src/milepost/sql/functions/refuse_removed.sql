-- True, or an error if messages after this position were removed or lost.
create or replace function {schema}.refuse_removed(after {schema}.position) returns boolean
language sql stable
return {schema}.refuse_gone(after) and {schema}.refuse_lost(after);
