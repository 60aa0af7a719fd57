-- Put one job, its content and state as bytes, in the caller's transaction; answers with its id, or
-- with the id of the unfinished job that has the same unique key in its channel. Locks nothing that
-- another producer or a worker could wait for; only a put of the same unique key waits, to learn
-- whether the first one commits.
create or replace function {schema}.put_bytes(
  channel text,
  content bytea,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state bytea default null,
  keep_for interval default null
) returns bigint
language plpgsql volatile as $$
#variable_conflict use_column
declare
  job_id bigint;
begin
  -- The job that holds the key may finish between the two statements: then put again.
  loop
    if put_bytes.unique_key is not null then
      select j.id into job_id
      from {schema}.jobs as j
      where j.channel = put_bytes.channel collate "C"
        and j.unique_key = put_bytes.unique_key collate "C"
        and j.status in ('ready', 'scheduled', 'running');
      if found then
        return job_id;
      end if;
    end if;
    -- Asked first, because counting costs more than all the rest, and few channels have a size.
    if exists (
      select from {schema}.channels as c
      where c.name = put_bytes.channel collate "C" and c.max_size is not null
    ) then
      perform {schema}.refuse_full(array[put_bytes.channel], array[1]);
    end if;
    insert into {schema}.jobs (
      channel, content, run_at, status, priority, max_attempts, unique_key, state, keep_for
    ) values (
      put_bytes.channel, put_bytes.content, coalesce(put_bytes.run_at, clock_timestamp()),
      case when put_bytes.run_at > clock_timestamp() then 'scheduled' else 'ready' end
        ::{schema}.job_status,
      put_bytes.priority, put_bytes.max_attempts, put_bytes.unique_key, put_bytes.state,
      put_bytes.keep_for
    )
    on conflict (channel, unique_key)
      where unique_key is not null and status in ('ready', 'scheduled', 'running')
      do nothing
    returning id into job_id;
    if found then
      return job_id;
    end if;
  end loop;
end;
$$;
