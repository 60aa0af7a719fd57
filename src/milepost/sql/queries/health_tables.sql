-- The sizes of the tables, with their indexes, and the number of rows that wait for vacuum.
select
  c.relname::text as name,
  pg_total_relation_size(c.oid) as bytes,
  coalesce(s.n_dead_tup, 0) as dead_rows
from pg_class as c
left join pg_stat_user_tables as s on s.relid = c.oid
where c.relnamespace = '{schema}'::regnamespace and c.relkind in ('r', 'm')
order by c.relname
