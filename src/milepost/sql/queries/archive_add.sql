-- In the transaction that also moves the archiver's checkpoint, or replaces other files. The chain of
-- ranges is checked at commit. The first is the one that no other ends before; a second one like that
-- is refused.
insert into {schema}.archive (
  after_transaction_id, after_position, last_transaction_id, last_position, location, name, messages,
  bytes, sha256, recorded_from, recorded_to, topics, types, format_version, has_content, epoch, is_first
)
values (
  %(after_transaction_id)s, %(after_position)s, %(last_transaction_id)s, %(last_position)s,
  %(location)s, %(name)s, %(messages)s, %(bytes)s, %(sha256)s, %(recorded_from)s, %(recorded_to)s,
  %(topics)s, %(types)s, %(format_version)s, %(has_content)s, %(epoch)s,
  not exists (
    select from {schema}.archive
    where (last_transaction_id, last_position) = (%(after_transaction_id)s, %(after_position)s)
  )
)
