-- An error if an INSERT sets the transaction_id of a message: readers would skip the message, or
-- stop. A trigger, which fires neither for rows that are copied from another log, by logical
-- replication or a load without triggers, nor for updates of existing messages.
create or replace function {schema}.refuse_named_id() returns trigger
language plpgsql volatile as $$
begin
  raise exception 'transaction_id is %, but only the log may set it',
    new.transaction_id
    using errcode = 'MP008',
    hint = 'Leave transaction_id and position out of the INSERT or COPY.';
end;
$$;
