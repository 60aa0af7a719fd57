-- Refuse to wait for jobs that nobody can see yet, because the transaction that put them has not
-- ended: they are not gone, and their followers would run first. Given are ids that the caller does
-- not see.
--
-- Only a unique index tells: who inserts an id waits for a transaction that has inserted it. So rows
-- with these ids are inserted, and undone by the exception that ends the block. The time limit is
-- shorter than deadlock_timeout: two puts that name each other's jobs are both refused.
create or replace function {schema}.refuse_uncommitted(ids bigint[]) returns void
language plpgsql volatile
set lock_timeout = '200ms'
as $$
begin
  insert into {schema}.jobs (id, channel, content, status)
  select distinct a.id, 'milepost.undone', ''::bytea, 'done'::{schema}.job_status
  from unnest(refuse_uncommitted.ids) as a (id)
  order by a.id
  on conflict do nothing;
  raise sqlstate 'MP099';
exception
  when sqlstate 'MP099' then
    return;
  when lock_not_available or deadlock_detected then
    raise exception 'a job was to wait for %, and a transaction that put % has not ended',
      array_to_string(refuse_uncommitted.ids[:10], ', '),
      case when cardinality(refuse_uncommitted.ids) > 1 then 'one of them' else 'it' end
      using errcode = 'MP009',
        hint = 'Nothing was put. Put again when it has committed, or put both jobs in one.';
end;
$$;
