-- Put one job in the caller's transaction, like put_bytes(); content and state are JSON, stored as
-- written. There is one function for each SQL type that JSON may have. An untyped literal is text,
-- the preferred type, whatever types the others accept (docs/decisions/0018).
create or replace function {schema}.put(
  channel text,
  content json,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state json default null,
  keep_for interval default null,
  after bigint[] default null,
  on_dead text default 'wait',
  replace boolean default false,
  unique_for interval default null
) returns bigint
language plpgsql volatile as $$
begin
  -- Here and not in put_bytes(), for which Python has checked them. In one expression, which costs
  -- little; refuse_job() says which of them it is.
  if (
      char_length(put.channel) between 1 and 255 and put.content is not null
      and put.priority between -32768 and 32767 and put.max_attempts > 0
    ) is not true
    or put.run_at not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00'
    or put.keep_for <= interval '0' or put.unique_for <= interval '0'
    or char_length(put.unique_key) not between 1 and 1024
    or put.on_dead not in ('wait', 'cancel', 'run')
  then
    perform {schema}.refuse_job(
      put.channel, put.content is not null, put.run_at, put.priority, put.max_attempts,
      put.unique_key, put.keep_for, put.on_dead, put.unique_for
    );
  end if;
  return {schema}.put_bytes(
    channel, convert_to(content::text, 'UTF8'), run_at, priority, max_attempts, unique_key,
    convert_to(state::text, 'UTF8'), keep_for, after, on_dead, replace, unique_for
  );
end;
$$;

-- Refuses text that is not JSON.
create or replace function {schema}.put(
  channel text,
  content text,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state text default null,
  keep_for interval default null,
  after bigint[] default null,
  on_dead text default 'wait',
  replace boolean default false,
  unique_for interval default null
) returns bigint
language plpgsql volatile as $$
begin
  return {schema}.put(
    channel, content::json, run_at, priority, max_attempts, unique_key, state::json, keep_for,
    after, on_dead, replace, unique_for
  );
end;
$$;

create or replace function {schema}.put(
  channel text,
  content jsonb,
  run_at timestamptz default null,
  priority integer default 0,
  max_attempts integer default 25,
  unique_key text default null,
  state jsonb default null,
  keep_for interval default null,
  after bigint[] default null,
  on_dead text default 'wait',
  replace boolean default false,
  unique_for interval default null
) returns bigint
language plpgsql volatile as $$
begin
  return {schema}.put(
    channel, content::json, run_at, priority, max_attempts, unique_key, state::json, keep_for,
    after, on_dead, replace, unique_for
  );
end;
$$;
