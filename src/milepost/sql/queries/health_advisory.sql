-- The sessions with an advisory lock of ours for which others wait, or for which their role has no
-- use, nor has any role that it may set. A function of a user's, with SECURITY DEFINER, may append or
-- put for such a role: then only for a moment.
with locks as materialized (
  select l.pid, l.granted, k.what, k.relation, k.privilege, l.classid, l.objid, l.objsubid
  from pg_locks as l
  join {schema}.advisory_keys() as k
    on k.classid = l.classid::bigint and k.objsubid = l.objsubid
    and (k.objid is null or k.objid = l.objid::bigint)
  where l.locktype = 'advisory'
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
),
judged as (
  select
    l.pid,
    l.what,
    a.usename::text as username,
    a.application_name as application,
    extract(epoch from clock_timestamp() - coalesce(a.xact_start, a.state_change))::float8
      as seconds,
    l.granted and exists (
      select from locks as w
      where not w.granted
        and (w.classid, w.objid, w.objsubid) = (l.classid, l.objid, l.objsubid)
    ) as is_awaited,
    not exists (
      select from pg_roles as r
      where pg_has_role(a.usesysid, r.oid, 'member')
        and has_any_column_privilege(r.oid, l.relation, l.privilege)
    ) as is_stranger
  from locks as l
  join pg_stat_activity as a on a.pid = l.pid
)
select j.what, j.pid, j.username, j.application, j.seconds, j.is_awaited, j.is_stranger
from judged as j
where j.is_awaited or j.is_stranger
order by j.pid, j.what
