-- Drop the table of the rows that a version of a pipeline has set aside, and its view if it shows that
-- table: a driver of another version shows its own as soon as it sets rows aside.
create or replace function {schema}.drop_rejected(
  target_schema text, rejected text, version integer
) returns void
language plpgsql volatile as $$
declare
  old regclass;
begin
  if rejected is not null then
    old := to_regclass(format('%I.%I', target_schema, rejected || '__v' || version));
  end if;
  if old is null then
    return;
  end if;
  if exists (
    select from pg_depend as d
    join pg_rewrite as rule on rule.oid = d.objid
    where d.classid = 'pg_rewrite'::regclass
      and d.refclassid = 'pg_class'::regclass
      and d.refobjid = old
      and rule.ev_class = to_regclass(format('%I.%I', target_schema, rejected))
  ) then
    execute format('drop view %I.%I', target_schema, rejected);
  end if;
  execute format('drop table %s', old);
end;
$$;
