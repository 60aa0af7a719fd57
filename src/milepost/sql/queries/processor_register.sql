-- What the processor reads is stored for its operators, because lag and skip examine the same
-- messages; and whether its reset needs the application.
insert into {schema}.processors (
  name, version, topics, types, state, owner, has_reset_handlers, mode
)
values (
  %(processor)s, %(version)s, %(topics)s, %(types)s, 'starting', %(owner)s, %(has_reset_handlers)s,
  %(mode)s
)
on conflict (name, version) do update
set topics = excluded.topics,
  types = excluded.types,
  has_reset_handlers = excluded.has_reset_handlers,
  mode = excluded.mode
