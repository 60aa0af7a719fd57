-- The timeline that the server writes, null on a standby. From the name of the file that it writes to:
-- the control file knows the one of the last checkpoint, which right after a promotion is the old one.
create or replace function {schema}.current_timeline() returns integer
language sql volatile
return case
  when not pg_is_in_recovery()
  then ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
end;
