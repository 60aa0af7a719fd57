-- Mend what the doctor finds wrong with the queue, and do what is overdue. Harmless where nothing
-- is; in the order in which one thing needs another. The lock keeps takers out, as in
-- set_channel().
create or replace function {schema}.repair_queue() returns void
language plpgsql volatile as $$
declare
  done bigint;
begin
  lock table {schema}.channels in exclusive mode;
  done := setval('{schema}.jobs_id_seq', greatest(
    pg_sequence_last_value('{schema}.jobs_id_seq'), (select max(j.id) from {schema}.jobs as j), 1
  ));
  done := setval('{schema}.jobs_taken_seq', greatest(
    pg_sequence_last_value('{schema}.jobs_taken_seq'),
    (select max(j.taken) from {schema}.jobs as j where j.status = 'running'), 1
  ));
  update {schema}.channels as c set oldest_running = 0 where c.oldest_running > 0;
  done := setval('{schema}.jobs_promote_at', 0);
  done := setval('{schema}.jobs_recover_at', 0);
  -- Whatever somebody else is changing just now is skipped, and needs no mending.
  while {schema}.promote_due(10000) > 0 loop end loop;
  while {schema}.recover_expired(10000) > 0 loop end loop;
  perform pg_notify(concat({channel}, '_queue'), '');
end;
$$;
