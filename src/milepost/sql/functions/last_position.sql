-- The position, without its transaction id, of the last message that this session has appended. For
-- RETURNING, which evaluates it row by row: a column there would need the privilege to read it, and
-- an appender needs no privilege other than INSERT.
--
-- If a user's row trigger appended to the same log before each row, its messages would be counted
-- too; we have no such trigger.
--
-- SECURITY DEFINER: a role that may insert needs no privilege on the sequence. The result only
-- concerns the session itself. Every name is qualified instead of setting search_path, as in
-- before_append().
create or replace function {schema}.last_position() returns bigint
language plpgsql volatile security definer as $$
begin
  return pg_catalog.currval('{schema}.messages_position_seq'::pg_catalog.regclass);
end;
$$;
