-- The tables of the user, and for each of them the columns whose values PostgreSQL makes by itself:
-- identities, and defaults that are another value at each call. A crash leaves gaps in sequences,
-- so these values differ from those of a run without one. So do the columns that refer to them.
with recursive tables as (
  select c.oid, n.nspname, c.relname
  from pg_catalog.pg_class as c
  join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
    and n.nspname <> %(internal)s and n.nspname <> 'information_schema'
    and not starts_with(n.nspname, 'pg_')
    and not exists (
      select from pg_catalog.pg_depend as d
      where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
    )
), generated (relation, number) as (
  select a.attrelid, a.attnum
  from tables as t
  join pg_catalog.pg_attribute as a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
  left join pg_catalog.pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attidentity <> ''
    or a.attgenerated = '' and pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~*
      '(nextval|now|timestamp|random\w*|uuid\w*|timeofday|txid_\w+|xact_id)\(|current_|localtime'
  union
  select k.conrelid, k.conkey[i]
  from generated as g
  join pg_catalog.pg_constraint as k on k.contype = 'f' and k.confrelid = g.relation
  cross join generate_subscripts(k.conkey, 1) as i
  where k.confkey[i] = g.number
)
select
  t.nspname::text, t.relname::text,
  array(
    select a.attname::text
    from generated as g
    join pg_catalog.pg_attribute as a on a.attrelid = g.relation and a.attnum = g.number
    where g.relation = t.oid
    order by a.attnum
  )
from tables as t
order by t.nspname, t.relname
