-- Set messages of one processor aside because their keys are parked, in the transaction that moves
-- the checkpoint past them. A key that is not parked becomes parked; with `retry` it is retried
-- immediately: it was parked when the message was held back, and was drained since. A message
-- without a key is set aside alone. Returns how many were set aside.
--
-- The messages are passed as they are stored: the table may not have them any more.
--
-- FOR KEY SHARE, so that a key cannot be unparked before these letters are visible. Repeated until
-- all keys are locked, because a key may be drained between the insert, which does not change an
-- existing row, and the lock.
create or replace function {schema}.park_messages(
  processor text,
  version integer,
  messages {schema}.messages[],
  error text,
  traceback text default '',
  attempts integer default 0,
  is_replayed boolean[] default null,
  retry boolean default false
) returns integer
language plpgsql volatile as $$
#variable_conflict use_column
declare
  digests bytea[];
  held integer;
  number integer;
begin
  select coalesce(array_agg(distinct sha256(convert_to(m.key, 'UTF8'))), '{}')
  into digests
  from unnest(park_messages.messages) as m
  where m.key is not null;
  loop
    insert into {schema}.parked_keys (processor, version, digest, key, retry_requested_at)
    select distinct on (m.key)
      park_messages.processor, park_messages.version, sha256(convert_to(m.key, 'UTF8')), m.key,
      case when park_messages.retry then clock_timestamp() end
    from unnest(park_messages.messages) as m
    where m.key is not null
    order by m.key
    on conflict (processor, version, digest) do nothing;
    perform from {schema}.parked_keys as k
    where k.processor = park_messages.processor
      and k.version = park_messages.version
      and k.digest = any(digests)
    order by k.digest
    for key share;
    get diagnostics held = row_count;
    exit when held = cardinality(digests);
  end loop;

  insert into {schema}.dead_letters (
    processor, version, transaction_id, "position", message_id, topic, key, type, data, metadata,
    recorded_at, error, traceback, attempts, is_parked, parked_id, is_replayed
  )
  select
    park_messages.processor, park_messages.version, m.transaction_id, m."position", m.id, m.topic,
    m.key, m.type, m.data, m.metadata, m.recorded_at, park_messages.error, park_messages.traceback,
    park_messages.attempts, true, k.id,
    coalesce(park_messages.is_replayed[m.number], false)
  from unnest(park_messages.messages) with ordinality as m (
    "position", transaction_id, id, topic, key, type, data, metadata, recorded_at, number
  )
  left join {schema}.parked_keys as k
    on k.processor = park_messages.processor
    and k.version = park_messages.version
    and k.digest = sha256(convert_to(m.key, 'UTF8'))
  order by m.transaction_id, m."position"
  on conflict (processor, version, transaction_id, "position") do update
  set error = excluded.error,
    traceback = excluded.traceback,
    attempts = dead_letters.attempts + excluded.attempts,
    failed_at = clock_timestamp(),
    retry_requested_at = null,
    is_parked = true,
    parked_id = excluded.parked_id,
    is_replayed = excluded.is_replayed;
  get diagnostics number = row_count;
  return number;
end;
$$;
