-- Processors: where each stands, how it fares, and what it had to set aside.

-- The last position that a processor (or one segment of it) has durably processed. Updated at
-- every batch, so half of each page is left free and no index mentions what changes: the
-- updates stay within their page (HOT).
create table {schema}.checkpoints (
  processor text not null,
  version integer not null,
  segment integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  epoch bigint not null default 0,
  owner text,
  updated_at timestamptz not null default clock_timestamp(),
  constraint checkpoints_pkey primary key (processor, version, segment),
  constraint checkpoints_processor_length check (char_length(processor) between 1 and 255)
) with (fillfactor = 50);

-- What a processor reports of itself and what its operators ask of it. Reported at a change of
-- state and every few seconds of work, never in the transaction of a batch.
create table {schema}.processors (
  name text not null,
  version integer not null,
  topics text[],
  types text[],
  is_paused boolean not null default false,
  state text not null default 'stopped',
  owner text,
  handled bigint not null default 0,
  rate double precision not null default 0,
  last_error text,
  last_error_at timestamptz,
  reported_at timestamptz not null default clock_timestamp(),
  constraint processors_pkey primary key (name, version)
) with (fillfactor = 50);

-- Messages that a processor gave up on. A copy, so that it outlives the log's retention.
create table {schema}.dead_letters (
  id bigint generated always as identity,
  processor text not null,
  version integer not null,
  transaction_id bigint not null,
  "position" bigint not null,
  message_id uuid not null,
  topic text not null,
  key text,
  type text not null,
  data json not null,
  metadata json not null,
  recorded_at timestamptz not null,
  error text not null,
  traceback text not null,
  attempts integer not null,
  failed_at timestamptz not null default clock_timestamp(),
  retry_requested_at timestamptz,
  constraint dead_letters_pkey primary key (id),
  constraint dead_letters_once unique (processor, version, transaction_id, "position")
);

-- What an at-least-once processor with an inbox has handled, so that a message delivered again
-- is recognised. Pruned behind the checkpoint.
create table {schema}.inbox (
  processor text not null,
  version integer not null,
  message_id uuid not null,
  transaction_id bigint not null,
  "position" bigint not null,
  handled_at timestamptz not null default clock_timestamp(),
  constraint inbox_pkey primary key (processor, version, message_id)
);
