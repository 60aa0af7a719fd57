-- The timeline that the server writes, null on a standby. Taken from the name of the file that it
-- writes: the control file has the timeline of the last checkpoint, which is the old one right
-- after a promotion.
create or replace function {schema}.current_timeline() returns integer
language sql volatile
return case
  when not pg_is_in_recovery()
  then ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
end;
