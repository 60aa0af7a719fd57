-- What tables call, for both orders of the log; each only if it is not there yet (see
-- wire_messages).
do $do$
begin
  if not exists (
    select from pg_attrdef as d
    join pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum
    where d.adrelid = '{schema}.messages'::regclass and a.attname = 'id'
  ) then
    alter table {schema}.messages alter column id set default {schema}.uuid7();
  end if;
  if not exists (
    select from pg_trigger
    where tgrelid = '{schema}.jobs'::regclass and tgname = 'queue_wake'
  ) then
    create trigger queue_wake after insert on {schema}.jobs
    for each statement execute function {schema}.queue_wake();
  end if;
end;
$do$;
