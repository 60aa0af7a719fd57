-- Refuse to merge if rows of the accepted attempts are missing: the server has crashed since they
-- were staged (staging is unlogged), or another driver has emptied the table.
create or replace function {schema}.check_staged(
  staging text, attempts bigint[], expected bigint
) returns void
language plpgsql volatile as $$
declare
  staged bigint;
begin
  execute format('select count(*) from {schema}.%I where _attempt = any($1)', staging)
  into staged using attempts;
  if staged <> expected then
    raise exception '% rows of the batch are staged, but % were copied', staged, expected
      using errcode = 'MP042',
      hint = 'The server crashed in between, or another driver emptied the table. '
        'Nothing was written. A pipeline repeats the batch by itself; start any other Spark job again.';
  end if;
end;
$$;
