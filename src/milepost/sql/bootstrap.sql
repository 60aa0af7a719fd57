-- Checked first: CREATE SCHEMA IF NOT EXISTS needs the privilege to create schemas, even if this
-- one exists.
do $do$
begin
  if to_regnamespace('{schema}') is null then
    create schema {schema};
  end if;
end;
$do$;

create table if not exists {schema}.migrations (
  number integer primary key,
  name text not null,
  applied_at timestamptz not null default clock_timestamp()
);
