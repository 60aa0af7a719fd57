-- Refuse arguments of put() that do not go together.
create or replace function {schema}.refuse_conditions(
  unique_key text, after bigint[], on_dead text, replace boolean, unique_for interval
) returns void
language plpgsql immutable as $$
begin
  if unique_key is null and (replace or unique_for is not null) then
    raise exception 'replace and unique_for need a unique_key'
      using errcode = 'MP031', hint = 'Nothing was put.';
  elsif replace and cardinality(after) > 0 then
    raise exception 'a job with replace cannot wait for others: after has % ids', cardinality(after)
      using errcode = 'MP031',
        hint = 'Nothing was put. Leave out after, or replace.';
  end if;
end;
$$;
