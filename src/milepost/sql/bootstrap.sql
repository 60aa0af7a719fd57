-- Asked first: "if not exists" alone needs the right to create schemas even if this one is there.
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
