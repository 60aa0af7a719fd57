-- Refuse a policy that a channel, or a family, cannot have.
create or replace function {schema}.refuse_policy(
  name text, max_concurrency integer default null, release_interval interval default null,
  max_size integer default null, paused boolean default false,
  max_concurrency_total integer default null, rate_count integer default null,
  rate_period interval default null, rate_burst integer default null
) returns void
language plpgsql stable as $$
begin
  perform {schema}.refuse_argument(checked.name, checked.value, checked.expected)
  from (
    values
      (
        'name', quote_literal(name),
        char_length(name) between 1 and 255 and strpos(left(name, -1), '*') = 0,
        '1 to 255 characters, and a star at the end only, as in tenant.*'
      ),
      (
        'max_concurrency', max_concurrency::text, coalesce(max_concurrency > 0, true),
        'a whole number from 1 on. To stop a channel, pause it'
      ),
      (
        'release_interval', release_interval::text,
        coalesce(release_interval > interval '0', true), 'more than 0'
      ),
      (
        'max_size', max_size::text, coalesce(max_size > 0, true),
        'a whole number from 1 on. To stop a channel, pause it'
      ),
      ('paused', null, paused is not null, 'true or false'),
      (
        'max_concurrency_total', max_concurrency_total::text,
        max_concurrency_total is null or max_concurrency_total > 0 and right(name, 1) = '*',
        'a whole number from 1 on, for a family such as tenant.*. One channel has max_concurrency'
      ),
      (
        'rate_count', rate_count::text,
        (rate_count is null) = (rate_period is null) and coalesce(rate_count > 0, true),
        'a whole number from 1 on, together with rate_period'
      ),
      (
        'rate_period', rate_period::text, coalesce(rate_period > interval '0', true), 'more than 0'
      ),
      (
        'rate_burst', rate_burst::text,
        rate_burst is null or rate_count is not null and rate_burst > 0,
        'a whole number from 1 on, together with rate_count and rate_period'
      )
  ) as checked (name, value, is_right, expected)
  where checked.is_right is not true;
end;
$$;
