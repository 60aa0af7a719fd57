-- Beside the server's identifier and timeline: the database and the table, which differ in a copy of a
-- database and after a restore into the same cluster (functions/moved_from.sql). Null is unknown, until
-- the next append or rebase: so a restore of an older dump, which is migrated first, is still adopted
-- by rebase. A log that has given no position has no place yet: copies of an empty one are independent.
alter table {schema}.log
  add column database_oid oid,
  add column table_oid oid,
  alter column system_identifier drop not null;
update {schema}.log
set system_identifier = null, timeline = null
where removed_position = 0
  and pg_sequence_last_value('{schema}.messages_position_seq') is null
  and not exists (select from {schema}.messages);

-- Up to here somebody waits for the archive: the archiver does not wait for more messages
-- (functions/request_archiving.sql).
alter table {schema}.retention add column archive_requested {schema}.position;
