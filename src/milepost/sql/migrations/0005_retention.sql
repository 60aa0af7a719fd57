-- What was removed from the log: every position up to this one may be gone. Whoever deletes
-- messages raises it in the same transaction, so that a reader that begins below it is refused
-- instead of being given less than there was.
alter table {schema}.log
  add column removed_transaction_id bigint not null default 0,
  add column removed_position bigint not null default 0;
