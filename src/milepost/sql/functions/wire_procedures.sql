-- Procedures run with the privileges of the owner, for those to whom an activity grants them. Nobody
-- else may call them: PostgreSQL lets everybody execute what is created.
revoke execute on all procedures in schema {schema} from public;

-- A role that puts, with the privileges of the release before: until they are granted again, it may
-- insert into jobs.
do $do$
declare
  grantee oid;
begin
  for grantee in
    select distinct given.grantee
    from pg_attribute as a
    join pg_class as c on c.oid = a.attrelid
    cross join lateral aclexplode(a.attacl || c.relacl) as given
    where c.oid = '{schema}.jobs'::regclass and a.attname = 'content'
      and given.privilege_type = 'INSERT' and given.grantee <> c.relowner
  loop
    execute format(
      'grant execute on procedure {schema}.put_job, {schema}.put_jobs to %s',
      case when grantee = 0 then 'public' else grantee::regrole::text end
    );
  end loop;
end;
$do$;
