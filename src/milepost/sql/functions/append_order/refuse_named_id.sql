-- An error if an INSERT sets the transaction_id of a message: readers would skip the message, or
-- stop. Not for rows that are copied from another log, by logical replication or a load without
-- triggers.
create or replace function {schema}.refuse_named_id(transaction_id bigint) returns boolean
language plpgsql stable as $$
begin
  if current_setting('session_replication_role') <> 'replica' then
    raise exception 'transaction_id is %, but only the log may set it', transaction_id
      using errcode = 'MP008',
      hint = 'Leave transaction_id and position out of the INSERT or COPY.';
  end if;
  return true;
end;
$$;
