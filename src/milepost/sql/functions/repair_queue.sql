-- Repair the faults of the queue that the doctor finds, and do overdue work. No effect if there are
-- none. The order matters: some steps depend on earlier ones. The lock keeps takers out, as in
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
  -- A job that another session is changing now is skipped, and needs no repair.
  while {schema}.promote_due(10000) > 0 loop end loop;
  while {schema}.recover_expired(10000) > 0 loop end loop;
  while {schema}.tend_followers(10000) > 0 loop end loop;
  -- Who still waits for a job that is gone was not told. One that waits for nothing gets an id that
  -- no job has.
  update {schema}.job_dependencies as d set is_linked = false
  where d.is_linked and not exists (select from {schema}.jobs as j where j.id = d.after_id);
  insert into {schema}.job_dependencies (job_id, after_id, on_dead)
  select j.id, 0, 'run' from {schema}.jobs as j
  where j.status = 'waiting'
    and not exists (select from {schema}.job_dependencies as d where d.job_id = j.id);
  while {schema}.tend_followers(10000) > 0 loop end loop;
  perform pg_notify(concat({channel}, '_queue'), '');
end;
$$;
