-- What only the code of two releases ago called.
do $do$
declare
  found record;
begin
  for found in
    select p.oid::regprocedure as signature from pg_proc as p
    where p.pronamespace = '{schema}'::regnamespace and p.proname ~ '_before_(column|argument)$'
  loop
    execute format('drop function %s', found.signature);
  end loop;
end;
$do$;
drop type if exists {schema}.job_of_before;
