-- Refuse arrays of different lengths, of which one element of each belongs to one job. `names`:
-- theirs, with blanks between. A length that is null stands for an array that was not given.
create or replace function {schema}.refuse_uneven(names text, variadic lengths integer[])
returns void
language plpgsql immutable as $$
begin
  if lengths[1] <> any (lengths) then
    raise exception 'arrays of different lengths: %', (
        select string_agg(format('%s has %s', a.name, a.length), ', ' order by a.number)
        from unnest(string_to_array(names, ' '), lengths)
          with ordinality as a (name, length, number)
        where a.length is not null
      )
      using errcode = 'MP031', hint = 'Nothing was changed. Give one element for each job.';
  end if;
end;
$$;
