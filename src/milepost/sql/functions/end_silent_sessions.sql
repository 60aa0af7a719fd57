-- End the sessions that silent instances of a processor keep its segments with (silent_sessions.sql).
-- What they have not committed is rolled back, and their next store would be fenced in any case. Those
-- that this role may not end are left to operators: `milepost doctor` names them.
create or replace function {schema}.end_silent_sessions(
  processor text, version integer, claim_seconds double precision
) returns table (segment integer, owner text, silent_seconds double precision, pid integer)
language plpgsql volatile as $$
#variable_conflict use_column
declare
  silent record;
begin
  for silent in
    select * from {schema}.silent_sessions(
      end_silent_sessions.processor, end_silent_sessions.version, end_silent_sessions.claim_seconds
    )
  loop
    begin
      -- The start too: another session may have the pid by now.
      perform from pg_stat_activity as a
      where a.pid = silent.pid
        and a.backend_start is not distinct from silent.backend_start
        and pg_terminate_backend(a.pid);
      if found then
        return query select silent.segment, silent.owner, silent.silent_seconds, silent.pid;
      end if;
    exception
      when insufficient_privilege then null;
    end;
  end loop;
end;
$$;
