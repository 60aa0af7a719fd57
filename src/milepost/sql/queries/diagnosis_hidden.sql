-- The number of transactions that have an id, and hence may hold the horizon of a log in
-- transaction order, but whose session is hidden from this role. Locks are never hidden.
select count(*)
from pg_locks as lock
join pg_stat_activity as activity on activity.pid = lock.pid
where lock.locktype = 'transactionid'
  and lock.mode = 'ExclusiveLock'
  and lock.granted
  and activity.query = '<insufficient privilege>'
