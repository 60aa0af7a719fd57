-- The position, without its transaction id, of the message that this session has appended last. For
-- RETURNING, which evaluates it row by row: a column there would ask for the right to read it, and an
-- appender needs no right but INSERT.
--
-- A row trigger of somebody else's that appends to the same log before each row would be counted too;
-- there is none of ours.
--
-- SECURITY DEFINER: who may insert needs no rights on the sequence. What it answers is the session's
-- own. Every name is qualified instead of fixing search_path, as in before_append().
create or replace function {schema}.last_position() returns bigint
language plpgsql volatile security definer as $$
begin
  return pg_catalog.currval('{schema}.messages_position_seq'::pg_catalog.regclass);
end;
$$;
