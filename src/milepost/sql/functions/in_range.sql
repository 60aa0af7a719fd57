-- The time itself, or the nearest that a job can have (jobs_run_at_in_years_1_to_9999): a delay may
-- be too long, and a worker's time too far away, but the job must go on.
create or replace function {schema}.in_range(moment timestamptz) returns timestamptz
language sql immutable parallel safe
return least(
  greatest(moment, '0001-01-02 00:00+00'::timestamptz), '9999-12-30 00:00+00'::timestamptz
);
