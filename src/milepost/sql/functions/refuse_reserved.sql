-- Refuse channels that are reserved for Milepost itself. No pattern matches them, so that no worker
-- takes what is in them.
create or replace function {schema}.refuse_reserved(names text[]) returns void
language plpgsql volatile as $$
declare
  reserved text;
begin
  select name into reserved
  from unnest(refuse_reserved.names) as name
  where starts_with(name, 'milepost.')
  limit 1;
  if found then
    raise exception 'channel % is reserved: names that begin with "milepost." are for internal use',
      reserved
      using errcode = 'MP030', hint = 'Nothing was changed. Choose another name.';
  end if;
end;
$$;
