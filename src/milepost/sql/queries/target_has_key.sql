-- Whether a unique index exists for the key, which an upsert needs.
select exists (
  select
  from pg_index as i
  join pg_class as c on c.oid = i.indrelid
  join pg_namespace as n on n.oid = c.relnamespace
  where n.nspname = %(target_schema)s
    and c.relname = %(table_name)s
    and i.indisunique
    and i.indpred is null
    and i.indexprs is null
    and (
      select array_agg(a.attname::text order by a.attname::text)
      from pg_attribute as a
      where a.attrelid = i.indrelid and a.attnum = any(i.indkey[0:i.indnkeyatts - 1])
    ) = %(key_columns)s
)
