-- What put_many_bytes() does in the tables, for jobs that depend on no other: see put_job().
create or replace procedure {schema}.put_jobs(
  inout ids bigint[],
  channels text[],
  contents bytea[],
  run_ats timestamptz[],
  priorities integer[],
  max_attempts integer[],
  states bytea[],
  keep_for interval[],
  trace text
)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  perform {schema}.refuse_reserved(put_jobs.channels);
  perform {schema}.refuse_full(array_agg(asked.name), array_agg(asked.adding))
  from (
    select name, count(*) as adding from unnest(put_jobs.channels) as name group by name
  ) as asked;
  with added as (
    insert into {schema}.jobs (
      channel, content, run_at, status, priority, max_attempts, state, keep_for, trace
    )
    select
      a.channel, a.content, coalesce(a.run_at, clock_timestamp()),
      case when a.run_at > clock_timestamp() then 'scheduled' else 'ready' end::{schema}.job_status,
      coalesce(a.priority, 0), coalesce(a.max_attempts, 25), a.state, a.keep_for,
      put_jobs.trace
    from unnest(
      put_jobs.channels, put_jobs.contents, put_jobs.run_ats,
      put_jobs.priorities, put_jobs.max_attempts, put_jobs.states,
      put_jobs.keep_for
    ) with ordinality as a (channel, content, run_at, priority, max_attempts, state, keep_for, number)
    order by a.number
    returning id
  )
  select array_agg(a.id) into put_jobs.ids from added as a;
end;
$$;
