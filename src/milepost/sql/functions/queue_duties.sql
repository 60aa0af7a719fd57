-- What has to be done now and then and that every take() helps with: promote, recover, purge. None is
-- done for more than a tenth of the time, however slow a long snapshot makes it. Looking for what to
-- promote is cheap, mostly, and then leaves nothing written behind. Whoever begins to recover says so
-- first, so that the others do not do it as well. A crash may forget what was done here in a take that
-- is not durable: it will be done again.
create or replace function {schema}.queue_duties() returns void
language plpgsql volatile as $$
declare
  started constant bigint := extract(epoch from clock_timestamp()) * 1000;
  due bigint;
  promoted bigint;
  done bigint;
begin
  due := coalesce(pg_sequence_last_value('{schema}.jobs_promote_at'), 0);
  -- A time far ahead was written before the clock was set back.
  if started >= due or started < due - 60000 then
    promoted := {schema}.promote_due();
    done := extract(epoch from clock_timestamp()) * 1000;
    -- As many as it takes at once: there may be more.
    if promoted < 1000 and done > started + 1 or started < due then
      done := setval('{schema}.jobs_promote_at', done + least(30000, 10 * (done - started)));
    end if;
  end if;
  due := coalesce(pg_sequence_last_value('{schema}.jobs_recover_at'), 0);
  if started >= due or started < due - 60000 then
    done := setval('{schema}.jobs_recover_at', started + 5000);
    done := {schema}.recover_expired();
    done := {schema}.purge_finished();
    done := extract(epoch from clock_timestamp()) * 1000;
    done := setval(
      '{schema}.jobs_recover_at', done + least(30000, greatest(500, 10 * (done - started)))
    );
  end if;
end;
$$;
