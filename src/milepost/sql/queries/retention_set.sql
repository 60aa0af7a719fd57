insert into {schema}.retention (keep, keep_messages, archive, archive_after)
values (%(keep)s, %(keep_messages)s, %(archive)s, %(archive_after)s)
on conflict (is_only) do update
set keep = excluded.keep,
  keep_messages = excluded.keep_messages,
  archive = excluded.archive,
  archive_after = excluded.archive_after,
  changed_at = clock_timestamp()
