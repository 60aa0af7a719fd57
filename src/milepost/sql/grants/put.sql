-- put: add jobs, and wait for their results. It puts through procedures that run with the privileges
-- of the owner. Of jobs, the role sees how they ended: status, result and last error.
grant execute on procedure {schema}.put_job, {schema}.put_jobs to {role};
grant select (id, status, keep_for, result, last_error) on {schema}.jobs to {role};
