-- The segments with which a processor begins: ids 0 to n - 1, which together hold every key once.
-- Where n is no power of two, the first ones are split once more than the others.
create or replace function {schema}.initial_segments(number integer)
returns table (id integer, mask integer)
language sql immutable
as $$
  select i, case when i < number - half or i >= half then 2 * half - 1 else half - 1 end
  from (select 1 << length(ltrim(number::bit(32)::text, '0')) - 1 as half) as power,
    generate_series(0, number - 1) as i
  order by i
$$;
