-- How many jobs a rate allows now: its burst, less what was taken and has not come back since. What
-- comes back is rate_count in each rate_period, evenly. `rate_at` is when all of the burst has come
-- back. Null without a rate.
create or replace function {schema}.rate_allows(
  rate_count integer,
  rate_period interval,
  rate_burst integer,
  rate_at timestamptz,
  this_moment timestamptz
) returns integer
language sql immutable as $$
  select case when rate_count is not null then greatest(0, floor(
    rate_burst - case
      when rate_at > this_moment
      then extract(epoch from rate_at - this_moment) * rate_count / extract(epoch from rate_period)
      else 0
    end
  ))::integer end
$$;
