-- The server and our session; does not use the schema, which may not exist.
select
  -- Without the suffix of a package: '15.18 (Debian 15.18-0+deb12u1)'.
  split_part(current_setting('server_version'), ' ', 1) as version,
  current_database()::text as database,
  current_user::text as username,
  pg_is_in_recovery() as is_standby,
  current_setting('milepost.notify', true) is distinct from 'off' as is_notifying,
  -- Without it, pg_stat_activity hides the activity of other users.
  pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all_sessions
