-- The server's timeline beside its system identifier. A promoted standby, or a recovery to a point in
-- time, begins a new one; what its predecessor had appended last may be gone, while somebody outside
-- of the database has seen it (functions/current_timeline.sql).
alter table {schema}.log add column timeline integer;
update {schema}.log
set timeline = ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer;

-- Rolling upgrades (docs/upgrading.md). From now on the schema says which code may run on it: the
-- last migration that it must know.
alter table {schema}.log
  add column oldest_code integer not null default 0,
  add column functions_digest text;

-- The release before this one refuses a schema that has more migrations than it knows. Where it has
-- been, which its checksum of the functions tells, it goes on seeing what it knows, and so runs on
-- while its processes are replaced. The next release drops the view and that checksum.
alter table {schema}.migrations rename to applied_migrations;
create view {schema}.migrations as
select number, name, applied_at
from {schema}.applied_migrations
where number <= 9 or (select functions_checksum is null from {schema}.log);

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
