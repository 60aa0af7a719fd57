-- The columns of a table: whether a row must have a value for one, and whether the server has one.
select
  a.attname, format_type(a.atttypid, a.atttypmod),
  a.attnotnull and not (a.atthasdef or a.attidentity <> ''),
  a.atthasdef or a.attidentity <> ''
from pg_attribute as a
join pg_class as c on c.oid = a.attrelid
join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %(target_schema)s
  and c.relname = %(table_name)s
  and a.attnum > 0
  and not a.attisdropped
order by a.attnum
