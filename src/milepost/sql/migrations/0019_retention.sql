-- What is kept in the log. Without a row, everything is. `keep`: messages that are younger stay;
-- `keep_messages`: so many of the newest ones stay.
create table {schema}.retention (
  is_only boolean primary key default true check (is_only),
  keep interval,
  keep_messages bigint,
  changed_at timestamptz not null default clock_timestamp(),
  constraint retention_keeps check (keep is not null or keep_messages is not null),
  constraint retention_keep check (keep >= interval '0'),
  constraint retention_keep_messages check (keep_messages >= 0)
);
