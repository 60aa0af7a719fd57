-- The span in which a job was put: its W3C traceparent and, behind a space, its tracestate. Null for
-- most. Not in the content, which is the user's, nor in the state, which handlers replace.
alter table {schema}.jobs add column trace text;

-- A job that replaces another one brings its own.
create or replace view {schema}.job_replacements as
select
  j.id, j.channel, j.unique_key, j.content, j.run_at, j.priority, j.max_attempts, j.state,
  j.keep_for, j.unique_for, j.trace
from {schema}.jobs as j
where false;

-- Roles that were granted what the previous release needs to put jobs call functions that now fill
-- this column.
do $$
declare
  may record;
begin
  for may in
    select distinct pg_get_userbyid(granted.grantee) as role
    from pg_attribute as a
    cross join lateral aclexplode(a.attacl) as granted
    where a.attrelid = '{schema}.jobs'::regclass and a.attname = 'state'
      and granted.privilege_type = 'INSERT' and granted.grantee <> 0
  loop
    execute format('grant insert (trace) on {schema}.jobs to %I', may.role);
  end loop;
end;
$$;
