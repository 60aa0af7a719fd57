-- When attempts begin (docs/decisions/0025).

-- A worker takes jobs ahead of its handlers, so "running" does not mean that a handler has begun.
-- `is_begun`: the running attempt has begun, or must be counted as if it had: only such an attempt
-- is a failure when its lock expires. `is_begin_awaited`: its channel has a release_interval, and
-- releases nothing more until this attempt has begun. `crashes`: how many attempts in a row ended
-- with their lock while the job may have been running; from 2 on, it runs alone. None is in an
-- index: heartbeats stay within their page.
alter table {schema}.jobs
  add column is_begun boolean not null default false,
  add column is_begin_awaited boolean not null default false,
  add column crashes smallint not null default 0;
update {schema}.jobs as j set is_begun = true where j.status = 'running';

-- Roles that were granted what the previous release needs (work, and operate for doctor --repair)
-- call functions that now change these columns.
do $$
declare
  may record;
begin
  for may in
    select distinct pg_get_userbyid(granted.grantee) as role, a.attname
    from pg_attribute as a
    cross join lateral aclexplode(a.attacl) as granted
    where a.attrelid = '{schema}.jobs'::regclass and a.attname in ('token', 'last_error')
      and granted.privilege_type = 'UPDATE' and granted.grantee <> 0
  loop
    execute format(
      'grant update (%s) on {schema}.jobs to %I',
      case may.attname when 'token' then 'is_begun, is_begin_awaited' else 'crashes' end, may.role
    );
  end loop;
end;
$$;
