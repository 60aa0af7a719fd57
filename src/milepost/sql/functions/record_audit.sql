-- Record what an operator did; the id of the row. The time is the server's, and the role cannot
-- change or delete the row afterwards.
create or replace function {schema}.record_audit(
  who text, action text, subject text, arguments jsonb default '{}'
) returns bigint
language sql volatile as $$
  insert into {schema}.audit (who, action, subject, arguments)
  values (record_audit.who, record_audit.action, record_audit.subject, record_audit.arguments)
  returning id;
$$;
