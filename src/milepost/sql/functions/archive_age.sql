-- How old a message is when it is to be archived; null if its age does not count.
create or replace function {schema}.archive_age() returns interval
language plpgsql volatile as $$
begin
  return (select coalesce(r.archive_after, r.keep) from {schema}.retention as r);
end;
$$;
