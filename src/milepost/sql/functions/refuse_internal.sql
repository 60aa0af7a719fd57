-- Refuse to do to a processor of Milepost itself what only its own code may do.
create or replace function {schema}.refuse_internal(processor text) returns void
language plpgsql volatile as $$
begin
  if starts_with(refuse_internal.processor, 'milepost.') then
    raise exception 'processor % is internal: its checkpoint is the end of the archive, and moves with its files alone',
      refuse_internal.processor
      using errcode = 'MP064', hint = 'Nothing was changed. It can be paused and resumed.';
  end if;
end;
$$;
