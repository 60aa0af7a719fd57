-- The server's timeline beside its system identifier. A promoted standby, or a recovery to a point in
-- time, begins a new one; what its predecessor had appended last may be gone, while somebody outside
-- of the database has seen it (functions/timeline.sql).
alter table {schema}.log add column timeline integer;
update {schema}.log
set timeline = ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer;

-- The last migration that code must know to run on this schema: an upgrade lets the release before
-- run on until its processes are replaced (docs/upgrading.md).
alter table {schema}.log add column oldest_code integer not null default 0;

-- After a restore or a failover: positions after the first, up to the second, may have been given to
-- messages that are lost. rebase() notes them and gives none of them again; whoever comes with one of
-- them has seen what is lost, and is told (functions/refuse_lost.sql).
create table {schema}.lost_positions (
  after_transaction_id bigint not null,
  after_position bigint not null,
  up_to_transaction_id bigint not null,
  up_to_position bigint not null,
  noted_at timestamptz not null default clock_timestamp(),
  primary key (after_transaction_id, after_position)
);
