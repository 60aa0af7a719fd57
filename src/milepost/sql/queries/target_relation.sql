-- The object with this name, if any, in the schema where it is or would be created.
select
  n.nspname,
  c.relkind::text,
  (
    -- The table that a view shows.
    select source.relname
    from pg_rewrite as rule
    join pg_depend as d
      on d.classid = 'pg_rewrite'::regclass and d.objid = rule.oid
      and d.refclassid = 'pg_class'::regclass and d.refobjid <> c.oid
    join pg_class as source on source.oid = d.refobjid
    where rule.ev_class = c.oid
    limit 1
  )
from pg_namespace as n
left join pg_class as c on c.relnamespace = n.oid and c.relname = %(name)s
where n.nspname = coalesce(%(target_schema)s, current_schema())
