-- Take back what earlier versions granted to a role that puts, which put_job() and put_jobs() made
-- unnecessary. Called by `milepost grant`. What a worker or an operator needs too is left to a role
-- that is one. Drop it in the next release.
create or replace function {schema}.narrow_producer(role text) returns void
language plpgsql volatile as $$
begin
  execute format(
    'revoke insert, insert (
      id, channel, content, run_at, status, priority, max_attempts, unique_key, state, keep_for,
      unique_for, trace
    ) on {schema}.jobs from %I',
    role
  );
  execute format('revoke usage on sequence {schema}.jobs_id_seq from %I', role);
  execute format('revoke insert (channel, last_id, jobs) on {schema}.channel_sizes from %I', role);
  if not has_column_privilege(role, '{schema}.jobs', 'locked_until', 'update') then
    execute format('revoke update (unique_for) on {schema}.jobs from %I', role);
    execute format('revoke insert on {schema}.job_dependencies from %I', role);
  end if;
end;
$$;
