-- As park, for messages that were read from the archive. JSON and times as text: as they are stored.
select {schema}.park_messages(
  %(processor)s,
  %(version)s,
  array(
    select
      row(
        m."position", m.transaction_id, m.id, m.topic, m.key, m.type, m.data::json,
        m.metadata::json, m.recorded_at::timestamptz
      )::{schema}.messages
    from unnest(
      %(positions)s::bigint[], %(transaction_ids)s::bigint[], %(message_id)s::uuid[], %(topic)s::text[],
      %(key)s::text[], %(type)s::text[], %(data)s::text[], %(metadata)s::text[],
      %(recorded_at)s::text[]
    ) with ordinality as m (
      "position", transaction_id, id, topic, key, type, data, metadata, recorded_at, number
    )
    order by m.number
  ),
  %(error)s,
  %(traceback)s,
  %(attempts)s,
  %(is_replayed)s::boolean[],
  %(retry)s
)
