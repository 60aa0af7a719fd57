-- What the table calls, each only if it is not there yet: ALTER TABLE waits for all sessions that
-- read the table, and appenders then wait behind it.
do $do$
begin
  if not exists (
    select from pg_trigger
    where tgrelid = '{schema}.messages'::regclass and tgname = 'before_append'
  ) then
    alter table {schema}.messages alter column transaction_id set default {schema}.transaction_id();
    create trigger before_append before insert on {schema}.messages
    for each statement execute function {schema}.before_append();
  end if;
  -- After the row: with a trigger before it, COPY would insert row by row.
  if not exists (
    select from pg_trigger
    where tgrelid = '{schema}.messages'::regclass and tgname = 'refuse_named_id'
  ) then
    create trigger refuse_named_id after insert on {schema}.messages
    for each row when (new.transaction_id <> {schema}.transaction_id())
    execute function {schema}.refuse_named_id();
  end if;
end;
$do$;
