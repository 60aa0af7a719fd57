-- These functions have more arguments now; calls with the former ones find them through defaults. A
-- step of its own, because the functions are replaced in the last one: it must lock no table that an
-- earlier step locks, and the former functions must be there until then. So this must be the last
-- migration of its release: between it and the functions, old code would find none of them
-- (tests/integration/upgrade).

drop function if exists {schema}.put_bytes(
  text, bytea, timestamptz, integer, integer, text, bytea, interval
);
drop function if exists {schema}.put(
  text, json, timestamptz, integer, integer, text, json, interval
);
drop function if exists {schema}.put(
  text, text, timestamptz, integer, integer, text, text, interval
);
drop function if exists {schema}.put(
  text, jsonb, timestamptz, integer, integer, text, jsonb, interval
);
drop function if exists {schema}.put_many_bytes(
  text[], bytea[], timestamptz[], integer[], integer[], text[], bytea[], interval[]
);
drop function if exists {schema}.put_many(
  text[], json[], timestamptz[], integer[], integer[], text[], json[], interval[]
);
drop function if exists {schema}.put_many(
  text[], text[], timestamptz[], integer[], integer[], text[], text[], interval[]
);
drop function if exists {schema}.put_many(
  text[], jsonb[], timestamptz[], integer[], integer[], text[], jsonb[], interval[]
);
drop function if exists {schema}.put_many(
  text[], text, timestamptz[], integer[], integer[], text[], text, interval[]
);
drop function if exists {schema}.set_channel(text, integer, interval, integer, boolean);

-- Those that workers of the previous release call all the time are renamed, as in
-- 0014_fixed_takes.sql. The next release drops what ends in _before_21, and the type job_of_before.
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
      or p.oid in (
        to_regprocedure('{schema}.give_back(bigint[], integer[], bigint[])'),
        to_regprocedure('{schema}.heartbeat(bigint[], integer[], interval, bytea[], bigint[])')
      )
    )
  loop
    execute format('alter function %s rename to %I', found.signature, found.name || '_before_21');
    execute replace(
      pg_get_functiondef(found.id), found.body,
      regexp_replace(found.body, '\m' || found.name || '\.', found.name || '_before_21.', 'g')
    );
  end loop;
  if not exists (
    select from pg_proc as p where p.prorettype = '{schema}.job_of_before'::regtype
  ) then  -- a new database
    drop type {schema}.job_of_before;
  end if;
end;
$do$;
