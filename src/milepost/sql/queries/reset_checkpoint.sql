-- The one way to rewind. Whoever is running finds its next store answered with 'older' or
-- 'further', rolls back and goes on from here.
insert into {schema}.checkpoints (processor, version, segment, transaction_id, "position")
values (%(processor)s, %(version)s, %(segment)s, %(transaction_id)s, %(position)s)
on conflict (processor, version, segment) do update
set transaction_id = excluded.transaction_id,
  "position" = excluded."position",
  updated_at = clock_timestamp()
