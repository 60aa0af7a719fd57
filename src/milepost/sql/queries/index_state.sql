-- Null: there is none. False: its creation was interrupted, or goes on in another session.
select (
  select i.indisvalid from pg_index as i
  where i.indexrelid = to_regclass('{schema}.' || %(name)s)
)
