-- The only way to rewind. A running instance gets 'older' or 'further' for its next store, rolls
-- back and continues from here.
insert into {schema}.checkpoints (processor, version, segment, transaction_id, "position")
values (%(processor)s, %(version)s, %(segment)s, %(transaction_id)s, %(position)s)
on conflict (processor, version, segment) do update
set transaction_id = excluded.transaction_id,
  "position" = excluded."position",
  updated_at = clock_timestamp()
