-- The statements that give a view its options and privileges again after it was created again.
create or replace function {schema}.view_settings(target_schema text, view_name text) returns text[]
language sql stable as $$
  with shown as (
    select c.oid, c.relowner, c.relacl, c.reloptions, format('%I.%I', target_schema, view_name) as name
    from pg_class as c
    where c.oid = to_regclass(format('%I.%I', target_schema, view_name))
  ), privileges as (
    select null::name as attname, shown.relacl as acl from shown
    union all
    select a.attname, a.attacl
    from shown
    join pg_attribute as a on a.attrelid = shown.oid and a.attnum > 0 and not a.attisdropped
  )
  select array(
    select format('alter view %s set (%s)', name, array_to_string(reloptions, ', '))
    from shown
    where reloptions is not null
    union all
    select format(
      'grant %s%s on %s to %s%s', acl.privilege_type, ' (' || quote_ident(privileges.attname) || ')', shown.name,
      case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end,
      case when acl.is_grantable then ' with grant option' else '' end
    )
    from shown
    cross join privileges
    cross join aclexplode(privileges.acl) as acl
    where acl.grantee <> shown.relowner
  )
$$;
