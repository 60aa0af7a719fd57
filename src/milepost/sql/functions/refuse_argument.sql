-- Refuse an argument of a function of the queue.
create or replace function {schema}.refuse_argument(name text, value text, expected text)
returns void
language plpgsql immutable as $$
begin
  raise exception '% is %: expected %', name, coalesce(left(value, 100), 'null'), expected
    using errcode = 'MP031', hint = 'Nothing was changed.';
end;
$$;
