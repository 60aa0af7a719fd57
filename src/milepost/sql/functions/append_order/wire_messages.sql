-- What the table calls, each only where it is not so yet: altering a table waits for everybody who
-- reads it, and everybody who appends then waits behind that.
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
  -- Not valid: rows that are there are not looked through, and a dump adds it behind the rows.
  if not exists (
    select from pg_constraint
    where conrelid = '{schema}.messages'::regclass and conname = 'messages_transaction_id_unnamed'
  ) then
    alter table {schema}.messages add constraint messages_transaction_id_unnamed
    check (transaction_id = 0 or {schema}.refuse_named_id(transaction_id)) not valid;
  end if;
end;
$do$;
