-- Take files out of the manifest. They are noted, so that they are removed after a while.
with replaced as (
  delete from {schema}.archive as a
  where a.name = any(%(names)s::text[])
  returning a.name, a.location
),
noted as (
  insert into {schema}.archive_replaced (name, location)
  select name, location from replaced
  on conflict (name) do update set replaced_at = excluded.replaced_at
)
select count(*) from replaced
