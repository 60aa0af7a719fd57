-- The server and this session of it; asks nothing of the schema, which may not be there.
select
  -- Without what a packager adds: '15.18 (Debian 15.18-0+deb12u1)'.
  split_part(current_setting('server_version'), ' ', 1) as version,
  current_database()::text as database,
  current_user::text as username,
  pg_is_in_recovery() as is_standby,
  current_setting('milepost.notify', true) is distinct from 'off' as is_notifying,
  -- Without it, what the sessions of other users do is hidden in pg_stat_activity.
  pg_has_role(current_user, 'pg_read_all_stats', 'usage') as sees_all_sessions
