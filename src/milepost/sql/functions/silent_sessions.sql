-- Sessions that keep a segment (or the turn of a processor without segments, as segment 0) for an
-- instance that has been silent for at least two claim times beyond its claim: a frozen process keeps
-- its connection, its locks and its open transaction for ever. Of all processors, if `processor` is
-- null.
--
-- Only what demonstrably belongs to that instance: the session holds the lock of the checkpoint's row
-- (its xmax) or of the turn, and the instance's own advisory lock as well.
create or replace function {schema}.silent_sessions(
  processor text, version integer, claim_seconds double precision
) returns table (
  processor_name text, processor_version integer, segment integer, owner text,
  silent_seconds double precision, pid integer, backend_start timestamptz
)
language plpgsql volatile as $$
#variable_conflict use_column
declare
  since constant timestamptz
    := clock_timestamp() - make_interval(secs => 2 * silent_sessions.claim_seconds);
begin
  if not exists (
    select from {schema}.segments as s
    where s.claimed_until < since
      and coalesce(silent_sessions.processor, s.processor) = s.processor
    union all
    select from {schema}.instances as i
    where i.alive_until < since
      and coalesce(silent_sessions.processor, i.processor) = i.processor
  ) then
    return;  -- the usual case: the locks of the server need not be read
  end if;
  return query
  with silent as materialized (
    select s.processor, s.version, s.id as segment, s.owner, s.claimed_until as until
    from {schema}.segments as s
    where s.claimed_until < since
    union all
    select i.processor, i.version, 0, i.owner, i.alive_until
    from {schema}.instances as i
    join {schema}.processors as p on p.name = i.processor and p.version = i.version
    where i.alive_until < since and p.segments is null
  ),
  kept as materialized (
    select
      silent.*,
      c.xmax as xid,
      hashtextextended(
        silent.processor || ' ' || silent.version::text, '{schema}.processors'::regclass::oid::bigint
      ) as turn,
      {schema}.owner_key(silent.owner) as owner_key
    from silent
    join {schema}.checkpoints as c
      on c.processor = silent.processor
      and c.version = silent.version
      and c.segment = silent.segment
    where coalesce(silent_sessions.processor, silent.processor) = silent.processor
      and coalesce(silent_sessions.version, silent.version) = silent.version
  ),
  locks as materialized (
    select l.pid, l.locktype, l.transactionid, l.objsubid,
      (l.classid::bigint << 32) | l.objid::bigint as key
    from pg_locks as l
    where l.granted
      and (
        l.locktype = 'transactionid'
        or (
          l.locktype = 'advisory'
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        )
      )
  )
  select distinct
    kept.processor, kept.version, kept.segment, kept.owner,
    extract(epoch from clock_timestamp() - kept.until)::double precision,
    held.pid, activity.backend_start
  from kept
  join locks as held
    on held.transactionid = kept.xid
    or (held.locktype = 'advisory' and held.objsubid = 2 and held.key = kept.turn)
  join locks as own
    on own.pid = held.pid
    and own.locktype = 'advisory' and own.objsubid = 1 and own.key = kept.owner_key
  join pg_stat_activity as activity on activity.pid = held.pid;
end;
$$;
