-- What retention has removed lately, without its content: an append with a condition, or with
-- `once`, must know of a message for a while after it has left the table (docs/decisions/0044).
-- Filled only in a log with one of the optional indexes (remember_removed.sql).
create table {schema}.removed_messages (
  transaction_id bigint not null,
  "position" bigint not null,
  id uuid not null,
  key text,
  type text not null,
  removed_at timestamptz not null default clock_timestamp(),
  constraint removed_messages_pkey primary key (transaction_id, "position")
);

create index removed_messages_id on {schema}.removed_messages (id);

create index removed_messages_key on {schema}.removed_messages (key, transaction_id, "position")
where key is not null;

create index removed_messages_removed_at on {schema}.removed_messages (removed_at);
