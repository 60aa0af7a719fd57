-- JSON as the bytes that jobs store, as written; nulls stay null.
create or replace function {schema}.json_bytes(written json[]) returns bytea[]
language sql stable strict
return array(
  select convert_to(one.written::text, 'UTF8')
  from unnest(json_bytes.written) with ordinality as one (written, number)
  order by one.number
);
