-- Parking: a message that failed, and the later ones of its key, wait in order while other keys
-- flow. Replay: what is delivered again after a reset is recognised.

-- A key whose messages are set aside. Who adds letters to it holds the row FOR KEY SHARE until they
-- are committed; a retry holds it FOR NO KEY UPDATE, which does not disturb that; what removes the
-- row takes it FOR UPDATE, and looks for letters only then.
-- The digest is the key's SHA-256: a key may be longer than an index entry.
create table {schema}.parked_keys (
  id bigint generated always as identity,
  processor text not null,
  version integer not null,
  digest bytea not null,
  key text not null,
  parked_at timestamptz not null default clock_timestamp(),
  retry_requested_at timestamptz,
  constraint parked_keys_pkey primary key (id),
  constraint parked_keys_once unique (processor, version, digest)
);

create index parked_keys_requested on {schema}.parked_keys (processor, version)
where retry_requested_at is not null;

-- is_parked: set aside by a processor that parks; such letters count towards its limit.
-- parked_id: in order behind others of its key; null where a message has no key.
-- is_replayed: it was delivered again after a reset, and its retry says so too.
alter table {schema}.dead_letters
  add column is_parked boolean not null default false,
  add column parked_id bigint references {schema}.parked_keys (id),
  add column is_replayed boolean not null default false;

-- The letters of a key, in order.
create index dead_letters_parked
on {schema}.dead_letters (parked_id, transaction_id, "position")
where parked_id is not null;

-- How many a processor has.
create index dead_letters_counted on {schema}.dead_letters (processor, version) where is_parked;

-- The keys whose hash & mask = id had been handled up to this position when the processor was
-- reset. A fact about keys, not about segments: splitting and merging leave it true. Removed by a
-- later reset, once every checkpoint is past it.
create table {schema}.replays (
  processor text not null,
  version integer not null,
  id integer not null,
  mask integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  constraint replays_pkey primary key (processor, version, id, mask)
);
