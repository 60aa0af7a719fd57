-- At the first append of a session: remember where the log is, if it is unknown. Answers whether it is
-- known now. A session that finds the row locked by the first appender, or changed since its snapshot,
-- leaves it to the other and asks again in its next transaction.
create or replace function {schema}.adopt_log() returns boolean
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from {schema}.log where database_oid is null) then
    perform from {schema}.log where database_oid is null for no key update skip locked;
    if found then
      perform {schema}.set_place();
    end if;
  end if;
  return (select database_oid is not null from {schema}.log);
exception
  when serialization_failure then
    return false;
end;
$$;
