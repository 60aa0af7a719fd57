-- The segments with which a processor starts: ids 0 to n - 1, which together contain every key
-- once. If n is not a power of two, the first ones are split once more than the others.
create or replace function {schema}.initial_segments(number integer)
returns table (id integer, mask integer)
language sql immutable
as $$
  select i, case when i < number - half or i >= half then 2 * half - 1 else half - 1 end
  from (select 1 << length(ltrim(number::bit(32)::text, '0')) - 1 as half) as power,
    generate_series(0, number - 1) as i
  order by i
$$;
