-- An error for whoever names the transaction_id of a message: readers would pass it over, or stop.
-- A trigger, which fires neither where rows are copied from another log, by logical replication or a
-- load without triggers, nor where somebody corrects a message that is there.
create or replace function {schema}.refuse_named_id() returns trigger
language plpgsql volatile as $$
begin
  raise exception 'transaction_id is %, but the log itself says where a message stands',
    new.transaction_id
    using errcode = 'MP008',
    hint = 'Leave transaction_id and position out of the INSERT or COPY.';
end;
$$;
