-- What the processor reads is kept for its operators: lag and skip look at the same messages.
insert into {schema}.processors (name, version, topics, types, state, owner)
values (%(processor)s, %(version)s, %(topics)s, %(types)s, 'starting', %(owner)s)
on conflict (name, version) do update
set topics = excluded.topics, types = excluded.types
