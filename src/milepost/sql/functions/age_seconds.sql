-- How long ago a moment was, not below 0; null for an infinite one, which tells nothing of an age.
create or replace function {schema}.age_seconds(moment timestamptz) returns double precision
language sql volatile
return case
  when isfinite(moment)
    then greatest(extract(epoch from clock_timestamp() - moment), 0)::double precision
end;
