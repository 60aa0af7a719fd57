-- Segments: one processor over many instances, each segment at its own checkpoint.

-- A slice of a processor's keys, those whose hash & mask = id, and the instance that has it now.
-- Claims live here and not with the checkpoints: an exactly-once handler holds the lock of its
-- checkpoint's row while it runs, and extending a claim must not wait for that. A claim raises the
-- epoch here and there, which is what fences a stale owner. Extended at every beat, so half of
-- each page is left free and no index mentions what changes (HOT).
create table {schema}.segments (
  processor text not null,
  version integer not null,
  id integer not null,
  mask integer not null,
  epoch bigint not null default 0,
  owner text,
  claimed_until timestamptz,
  wanted_by text,
  wanted_until timestamptz,
  last_error text,
  last_error_at timestamptz,
  constraint segments_pkey primary key (processor, version, id),
  -- A mask is a row of ones, and an id lies below it.
  constraint segments_mask check (mask >= 0 and mask & (mask::bigint + 1) = 0),
  constraint segments_id check (id & mask = id),
  constraint segments_claim check ((owner is null) = (claimed_until is null))
) with (fillfactor = 50);

-- After a merge: up to where the keys of (id, mask) were handled before it, beyond the lower
-- checkpoint that the merged segment goes on from. What lies at or below is not delivered again.
-- True whoever owns the segment, until a reset, which removes them.
create table {schema}.segment_floors (
  processor text not null,
  version integer not null,
  segment integer not null,
  id integer not null,
  mask integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  constraint segment_floors_pkey primary key (processor, version, segment, id, mask)
);

-- The living instances of a processor: how they find each other.
create table {schema}.instances (
  processor text not null,
  version integer not null,
  owner text not null,
  alive_until timestamptz not null,
  started_at timestamptz not null default clock_timestamp(),
  rate double precision not null default 0,
  constraint instances_pkey primary key (processor, version, owner)
) with (fillfactor = 50);

-- How many segments it has (null: it is not segmented), how its checkpoints move (auto, deferred),
-- and whether a reset needs the application because that holds reset handlers.
alter table {schema}.processors
  add column segments integer,
  add column mode text,
  add column has_reset_handlers boolean not null default false;
