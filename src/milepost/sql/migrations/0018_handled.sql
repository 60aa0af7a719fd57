-- What self-checkpointing handlers have handled, beside what is durable.

-- Up to where the owner of this epoch has given messages to its handlers; written with its claims,
-- for operators. Of a former epoch it means nothing: the next owner starts at the checkpoint.
alter table {schema}.segments
  add column handled_epoch bigint,
  add column handled_transaction_id bigint,
  add column handled_position bigint;

-- Roles that were granted what the previous release needs to run processors change these, too.
do $$
declare
  may record;
begin
  for may in
    select distinct pg_get_userbyid(granted.grantee) as role
    from pg_attribute as a
    cross join lateral aclexplode(a.attacl) as granted
    where a.attrelid = '{schema}.segments'::regclass and a.attname = 'last_error'
      and granted.privilege_type = 'UPDATE' and granted.grantee <> 0
  loop
    execute format(
      'grant update (handled_epoch, handled_transaction_id, handled_position) '
      'on {schema}.segments to %I', may.role
    );
  end loop;
end;
$$;
