-- The floors that transactions in flight hold (see before_append), by virtual transaction id.
--
-- Advisory locks have no owner: any role that may connect can take one that looks like a floor. A
-- floor counts only if its holder also has the table lock that an INSERT takes before its trigger
-- runs, which needs the privilege to insert.
--
-- pg_locks reads each session's own table locks before the shared ones, including advisory locks. A
-- session that takes both in between appears here with a floor but without a table lock, and is not
-- counted: it draws after the caller has read the sequence, hence above that value. Both locks end
-- with the transaction, after its commit is visible, and both have its virtual id, also if it is
-- prepared.
create or replace function {schema}.floors_held() returns table (
  virtualtransaction text,
  pid integer,
  floor bigint
)
language sql volatile as $$
  with lock as materialized (
    select locktype, virtualtransaction, pid, objid
    from pg_locks
    where database = (select oid from pg_database where datname = current_database())
      and (
        locktype = 'advisory' and classid = '{schema}.messages'::regclass and objsubid = 1
        or locktype = 'relation' and relation = '{schema}.messages'::regclass
        and mode = 'RowExclusiveLock'
      )
  )
  select held.virtualtransaction, held.pid, held.objid::bigint
  from lock as held
  where held.locktype = 'advisory'
    and held.virtualtransaction in (
      select inserting.virtualtransaction from lock as inserting
      where inserting.locktype = 'relation'
    )
$$;
