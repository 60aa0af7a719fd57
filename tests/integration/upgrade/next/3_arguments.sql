-- heartbeat() has one more argument now; calls without it find it through its default. The former
-- functions are renamed, not dropped: workers of the previous release call them all the time. The
-- release after this one drops them.
--
-- A step of its own, and the last one of the release: the functions are created in the same
-- transaction. Between two steps, old code would find none of them.
do $do$
declare
  found record;
begin
  for found in
    select
      p.oid as id, p.oid::regprocedure as signature, p.proname as name, p.prosrc as body
    from pg_proc as p
    where p.pronamespace = '{schema}'::regnamespace and (
      p.prorettype = '{schema}.job_of_before'::regtype
      or p.oid = to_regprocedure(
        '{schema}.heartbeat(bigint[], integer[], interval, bytea[], bigint[], boolean[])'
      )
    )
  loop
    execute format('alter function %s rename to %I', found.signature, found.name || '_before_argument');
    execute replace(
      pg_get_functiondef(found.id), found.body,
      regexp_replace(found.body, '\m' || found.name || '\.', found.name || '_before_argument.', 'g')
    );
  end loop;
end;
$do$;
