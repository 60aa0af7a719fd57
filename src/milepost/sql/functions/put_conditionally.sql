-- Put one job that has a unique key, or that waits for other jobs; see put_bytes().
--
-- `unique_key`: if a job of the channel has the key, its id is returned. A job has it until it is
-- finished and, after its completion, for its `unique_for`. With `replace`, the job that has the key
-- gets the new content, state, priority, times and limits; if it runs, the new job is put, and waits
-- for the end of that one.
--
-- `after`: the job waits until these have completed. Those that are gone count as completed.
-- `on_dead` says what happens if one of them does not complete: tend_followers().
create or replace function {schema}.put_conditionally(
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
) returns bigint
language plpgsql volatile as $$
#variable_conflict use_column
declare
  awaited bigint[];
  on_dead constant text := coalesce(put_conditionally.on_dead, 'wait');
  -- A completed job has to be there for as long as it has its key.
  kept_for constant interval := case
    when put_conditionally.unique_for is null then put_conditionally.keep_for
    else greatest(put_conditionally.keep_for, put_conditionally.unique_for)
  end;
  holder record;
  job_id bigint;
  is_ready boolean;
begin
  perform {schema}.refuse_conditions(
    put_conditionally.unique_key, put_conditionally.after, on_dead, put_conditionally.replace,
    put_conditionally.unique_for
  );
  -- The job that has the key may finish or begin between two statements: then put again.
  loop
    awaited := {schema}.unfinished_among(put_conditionally.after);
    if put_conditionally.unique_key is not null then
      select h.id, h.status, h.is_over into holder
      from {schema}.key_holder(put_conditionally.channel, put_conditionally.unique_key) as h;
      if found and holder.is_over then
        update {schema}.jobs as j set unique_for = null where j.id = holder.id;
      elsif found and put_conditionally.replace and holder.status = 'running' then
        awaited := array[holder.id];
      elsif found and put_conditionally.replace and holder.status <> 'done' then
        -- Its row is locked until the commit, so that nobody takes what may not stay as it was.
        update {schema}.jobs as j
        set content = put_conditionally.content, state = put_conditionally.state,
          run_at = coalesce(put_conditionally.run_at, clock_timestamp()),
          priority = put_conditionally.priority, max_attempts = put_conditionally.max_attempts,
          keep_for = kept_for, unique_for = put_conditionally.unique_for,
          trace = put_conditionally.trace, failures = 0, last_error = null,
          status = case
            when j.status = 'waiting' then 'waiting'
            when put_conditionally.run_at > clock_timestamp() then 'scheduled'
            else 'ready'
          end::{schema}.job_status
        where j.id = holder.id and j.status in ('ready', 'scheduled', 'waiting')
        returning j.id, j.status = 'ready' into job_id, is_ready;
        if is_ready then
          perform pg_notify(concat({channel}, '_queue'), '');
        end if;
        continue when job_id is null;
        return job_id;
      elsif found then
        return holder.id;
      end if;
    end if;
    perform {schema}.refuse_full(array[put_conditionally.channel], array[1]);

    if cardinality(awaited) > 0 then
      insert into {schema}.jobs (
        channel, content, run_at, status, priority, max_attempts, unique_key, state, keep_for,
        unique_for, trace
      ) values (
        put_conditionally.channel, put_conditionally.content,
        coalesce(put_conditionally.run_at, clock_timestamp()), 'waiting',
        put_conditionally.priority, put_conditionally.max_attempts, put_conditionally.unique_key,
        put_conditionally.state, kept_for, put_conditionally.unique_for,
        put_conditionally.trace
      )
      on conflict (channel, unique_key)
        where unique_key is not null and status = 'waiting'
        do nothing
      returning id into job_id;
      continue when job_id is null;
      insert into {schema}.job_dependencies (job_id, after_id, on_dead)
      select put_job.id, a.id, case when put_conditionally.replace then 'run' else on_dead end
      from (select job_id as id) as put_job, unnest(awaited) as a (id);
      return job_id;
    end if;

    insert into {schema}.jobs (
      channel, content, run_at, status, priority, max_attempts, unique_key, state, keep_for,
      unique_for, trace
    ) values (
      put_conditionally.channel, put_conditionally.content,
      coalesce(put_conditionally.run_at, clock_timestamp()),
      case when put_conditionally.run_at > clock_timestamp() then 'scheduled' else 'ready' end
        ::{schema}.job_status,
      put_conditionally.priority, put_conditionally.max_attempts, put_conditionally.unique_key,
      put_conditionally.state, kept_for, put_conditionally.unique_for,
      put_conditionally.trace
    )
    on conflict (channel, unique_key)
      where unique_key is not null and (
        status in ('ready', 'scheduled', 'running') or status = 'done' and unique_for is not null
      )
      do nothing
    returning id into job_id;
    continue when job_id is null;
    return job_id;
  end loop;
end;
$$;
