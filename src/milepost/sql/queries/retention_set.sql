insert into {schema}.retention (keep, keep_messages)
values (%(keep)s, %(keep_messages)s)
on conflict (is_only) do update
set keep = excluded.keep, keep_messages = excluded.keep_messages, changed_at = clock_timestamp()
