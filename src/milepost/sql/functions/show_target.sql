-- Make a name show one version of a pipeline's table. The view is replaced in place if possible,
-- which keeps its grants and dependent objects; if the columns differ, it is created again with the
-- same grants.
create or replace function {schema}.show_target(
  target_schema text, view_name text, table_name text
) returns void
language plpgsql volatile as $$
declare
  view_is constant text := format(
    'view %1$I.%2$I as select * from %1$I.%3$I', target_schema, view_name, table_name
  );
  grants constant text[] := array(
    select format(
      'grant %s on %I.%I to %s%s', acl.privilege_type, target_schema, view_name,
      case acl.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(acl.grantee)) end,
      case when acl.is_grantable then ' with grant option' else '' end
    )
    from pg_class as c
    cross join aclexplode(c.relacl) as acl
    where c.oid = to_regclass(format('%I.%I', target_schema, view_name))
      and acl.grantee <> c.relowner
  );
  statement text;
begin
  execute 'create or replace ' || view_is;
exception
  when invalid_table_definition then
    execute format('drop view %I.%I', target_schema, view_name);
    execute 'create ' || view_is;
    foreach statement in array grants loop
      execute statement;
    end loop;
end;
$$;
