-- Leave nothing of what a handler has set for its session, and restore what is ours. What DISCARD
-- ALL does, without the plans and the prepared statements: most of these are ours, and cost more to
-- make again than all of this (docs/decisions/0025). Works inside a transaction, too.
--
-- As a function, because its statements are then parsed once in a session, and it can be called by
-- the statement that settles a job: no further round trip.
-- `application_name`: null through a pooler, where nothing of ours is set. `has_keep_alives`: see
-- queries/session_keepalives.sql. `keeps_locks`: some of the session's advisory locks are ours.
create or replace function {schema}.reset_session(
  application_name text default null,
  has_keep_alives boolean default false,
  keeps_locks boolean default false
) returns void
language plpgsql volatile as $$
declare
  done text;
begin
  reset session authorization;
  reset role;
  reset all;
  -- In plpgsql, CLOSE would be about a variable.
  execute 'close all';
  unlisten *;
  discard temp;
  discard sequences;
  if not reset_session.keeps_locks then
    perform pg_catalog.pg_advisory_unlock_all();
  end if;
  if reset_session.application_name is null then
    return;
  end if;
  done := pg_catalog.set_config('application_name', reset_session.application_name, false);
  done := pg_catalog.set_config('default_transaction_isolation', 'read committed', false);
  if reset_session.has_keep_alives then
    done := pg_catalog.set_config('client_connection_check_interval', '2s', false);
    done := pg_catalog.set_config('tcp_keepalives_idle', '10', false);
    done := pg_catalog.set_config('tcp_keepalives_interval', '5', false);
    done := pg_catalog.set_config('tcp_keepalives_count', '3', false);
  end if;
end;
$$;
