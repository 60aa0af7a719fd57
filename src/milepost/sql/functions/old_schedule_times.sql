-- The times in the content of a job of milepost.schedules, which is how the release before this one
-- keeps schedules: a JSON document. No row if the content is something else. Drop this, and the
-- two functions that call it, in the next release.
--
-- Bytes of a job may be NUL, which PostgreSQL cannot read in JSON. They are not in the times.
create or replace function {schema}.old_schedule_times(content bytea)
returns table (every interval, cron text, timezone text)
language plpgsql immutable as $$
declare
  document json;
begin
  document := replace(convert_from(content, 'UTF8'), '\u0000', '\u0001')::json;
  every := make_interval(secs => (document ->> 'every_seconds')::float8);
  cron := document ->> 'cron';
  timezone := document ->> 'timezone';
  if every is not null or cron is not null then
    return next;
  end if;
exception
  when invalid_text_representation or character_not_in_repertoire or untranslatable_character then
    return;
end;
$$;
