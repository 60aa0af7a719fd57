-- What the table calls, each only if it is not there yet: ALTER TABLE waits for all sessions that
-- read the table, and appenders then wait behind it.
do $do$
begin
  if not exists (
    select from pg_trigger
    where tgrelid = '{schema}.messages'::regclass and tgname = 'before_append'
  ) then
    alter table {schema}.messages alter column transaction_id set default 0;
    create trigger before_append before insert on {schema}.messages
    for each statement execute function {schema}.before_append();
  end if;
  -- Not valid: existing rows are not checked, and a dump adds the constraint after the rows.
  if not exists (
    select from pg_constraint
    where conrelid = '{schema}.messages'::regclass and conname = 'messages_transaction_id_unnamed'
  ) then
    alter table {schema}.messages add constraint messages_transaction_id_unnamed
    check (transaction_id = 0 or {schema}.refuse_named_id(transaction_id)) not valid;
  end if;
end;
$do$;
