-- What put_bytes() does in the tables, with the privileges of the owner: a role that puts needs none
-- on jobs, with which it could choose ids, lock jobs, or insert what no put inserts.
--
-- A procedure, because "grant execute on all functions", which every role gets, leaves procedures
-- out: EXECUTE on this one is what the role of a producer has (wire_procedures.sql).
create or replace procedure {schema}.put_job(
  inout job_id bigint,
  channel text,
  content bytea,
  run_at timestamptz,
  priority integer,
  max_attempts integer,
  unique_key text,
  state bytea,
  keep_for interval,
  after bigint[],
  on_dead text,
  replace boolean,
  unique_for interval,
  trace text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  if starts_with(put_job.channel, 'milepost.') then
    perform {schema}.refuse_reserved(array[put_job.channel]);
  end if;
  if put_job.unique_key is not null or put_job.after is not null
    or put_job.replace or put_job.unique_for is not null
  then
    job_id := {schema}.put_conditionally(
      put_job.channel, put_job.content, put_job.run_at, put_job.priority,
      put_job.max_attempts, put_job.unique_key, put_job.state, put_job.keep_for,
      put_job.after, put_job.on_dead, put_job.replace, put_job.unique_for,
      put_job.trace
    );
    return;
  end if;
  -- Checked first, because counting is expensive, and few channels and families have a max_size.
  if exists (
    select from {schema}.channels as c
    where c.name = put_job.channel collate "C" and c.max_size is not null
  ) or exists (
    select from {schema}.channels as f where right(f.name, 1) = '*' and f.max_size is not null
  ) then
    perform {schema}.refuse_full(array[put_job.channel], array[1]);
  end if;
  insert into {schema}.jobs (
    channel, content, run_at, status, priority, max_attempts, state, keep_for, trace
  ) values (
    put_job.channel, put_job.content, coalesce(put_job.run_at, clock_timestamp()),
    case when put_job.run_at > clock_timestamp() then 'scheduled' else 'ready' end
      ::{schema}.job_status,
    put_job.priority, put_job.max_attempts, put_job.state, put_job.keep_for,
    put_job.trace
  )
  returning id into job_id;
end;
$$;
