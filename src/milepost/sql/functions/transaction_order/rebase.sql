-- Make a log that was restored from another cluster this cluster's own: raise the base so that
-- every transaction still to append here sorts above every message that is there, and above
-- every horizon that a reader may have reached in the old cluster. That one is not in the dump,
-- but the old cluster cannot have used up 2^40 transaction ids since its newest message.
-- Positions and checkpoints keep their values. Answers with what was done.
create or replace function {schema}.rebase() returns text
language plpgsql volatile as $$
declare
  newest bigint;
  base bigint;
begin
  -- Nobody appends meanwhile.
  lock table {schema}.messages in share row exclusive mode;
  if not {schema}.is_foreign() then
    return 'nothing: the log belongs to this cluster';
  end if;
  select coalesce(max(transaction_id), 0) into newest from {schema}.messages;
  base := greatest({schema}.transaction_base(), newest) + (1::bigint << 40);
  execute format(
    'create or replace function {schema}.transaction_base() returns bigint '
    'language sql immutable parallel safe return %s::bigint',
    base
  );
  update {schema}.log
  set system_identifier = control.system_identifier
  from pg_control_system() as control;
  return format('transaction ids of this cluster now count from %s', base);
end;
$$;
