-- Periodic work that every take() helps with: promote, tell jobs that wait for others, recover,
-- purge, age. None takes more than a tenth of the time, however slow a long snapshot makes it; but
-- to tell a job does not count, because each hop of a chain would delay the next one. Nor does one
-- slow look among quick ones: the machine may have held it up. Checking what to promote is usually
-- cheap, and then writes nothing. A session that starts to recover records it first, so that the
-- others do not recover too. A crash may undo what was done here in a take that is not durable: it is
-- done again then.
create or replace function {schema}.queue_duties() returns void
language plpgsql volatile as $$
declare
  started constant bigint := extract(epoch from clock_timestamp()) * 1000;
  due bigint;
  promoted bigint;
  told bigint;
  done bigint;
begin
  due := coalesce(pg_sequence_last_value('{schema}.jobs_promote_at'), 0);
  -- A time far in the future was written before the clock was set back.
  if started >= due or started < due - 60000 then
    promoted := {schema}.promote_due();
    if (select e.number from {schema}.job_endings as e order by e.number limit 1) is not null
      or (
        select d.job_id from {schema}.job_dependencies as d where not d.is_linked
        order by d.job_id limit 1
      ) is not null
    then
      done := extract(epoch from clock_timestamp()) * 1000;
      told := {schema}.tend_followers();
      promoted := greatest(promoted, told);
    end if;
    if told is null or told = 0 then
      done := extract(epoch from clock_timestamp()) * 1000;
    end if;
    -- It has reached its limit: there may be more.
    if promoted < 1000 and done > started + 1 or started < due then
      done := setval('{schema}.jobs_promote_at', done + least(
        case when started - due > 5000 then 50 else 30000 end, 10 * (done - started)
      ));
    end if;
  end if;
  due := coalesce(pg_sequence_last_value('{schema}.jobs_recover_at'), 0);
  if started >= due or started < due - 60000 then
    done := setval('{schema}.jobs_recover_at', started + 5000);
    done := {schema}.recover_expired();
    done := {schema}.purge_finished();
    done := {schema}.purge_dead();
    done := {schema}.age_ready();
    -- Sizes that were counted again since: see refuse_full().
    delete from {schema}.channel_sizes as s
    where s.counted_at < clock_timestamp() - interval '1 minute' and exists (
      select from {schema}.channel_sizes as n
      where n.channel = s.channel and n.last_id > s.last_id
    );
    done := extract(epoch from clock_timestamp()) * 1000;
    done := setval(
      '{schema}.jobs_recover_at', done + least(30000, greatest(500, 10 * (done - started)))
    );
  end if;
end;
$$;
