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
  -- A position that somebody names would be passed over by readers, or stop them. Not valid: what
  -- is there is not looked through; rebase() puts it in its place.
  if not exists (
    select from pg_constraint
    where conrelid = '{schema}.messages'::regclass and conname = 'messages_transaction_id_unnamed'
  ) then
    alter table {schema}.messages add constraint messages_transaction_id_unnamed
    check (transaction_id = 0) not valid;
  end if;
end;
$do$;
