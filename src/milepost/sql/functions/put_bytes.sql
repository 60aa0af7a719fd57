-- Put one job, its content and state as bytes, in the caller's transaction. Returns its id, or the
-- id of the job that has the same unique key in its channel. Takes no lock that another producer or
-- a worker could wait for; only a put with the same unique key waits, until it is known whether the
-- first one commits. What `after`, `on_dead`, `replace` and `unique_for` mean: put_conditionally().
-- A reserved channel is refused. `trace`: the span in which it is put, as a W3C traceparent and,
-- behind a space, its tracestate.
create or replace function {schema}.put_bytes(
  channel text,
  content bytea,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state bytea default null,
  keep_for interval default null,
  after bigint[] default null,
  on_dead text default 'wait',
  replace boolean default false,
  unique_for interval default null,
  trace text default null
) returns bigint
language plpgsql volatile as $$
#variable_conflict use_column
declare
  job_id bigint;
begin
  call {schema}.put_job(
    job_id, put_bytes.channel, put_bytes.content, put_bytes.run_at, put_bytes.priority,
    put_bytes.max_attempts, put_bytes.unique_key, put_bytes.state, put_bytes.keep_for,
    put_bytes.after, put_bytes.on_dead, put_bytes.replace, put_bytes.unique_for, put_bytes.trace
  );
  return job_id;
end;
$$;
