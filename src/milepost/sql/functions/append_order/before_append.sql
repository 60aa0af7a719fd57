-- Before a transaction draws its first position: register a floor below every position that it can
-- draw, where the horizon finds it.
--
-- The floor is the sequence's last value. It is stored as the low half of the key of a shared
-- advisory lock: shared, so that appenders never wait for each other; at transaction level, so that
-- it is held until after the commit is visible, survives PREPARE TRANSACTION, and is released with
-- a rolled back savepoint together with the rows it covers.
--
-- A transaction that has no id yet has written nothing, so it has no floor. If it has an id, a
-- marker tells that it has a floor. The marker is reset with the savepoint too. It contains the
-- transaction's own id, so that a setting that was left over or set by a user never matches. The
-- first statement of a transaction leaves it out, because setting and reading it is a fifth of the
-- trigger: if the transaction appends again, the second statement takes another floor, which is
-- higher and therefore harmless, and sets the marker. The id is drawn here, because statements
-- without rows do not draw one: each of them would take a floor.
--
-- NOTIFY serialises commits, so only one of the transactions in flight sends it: the one that gets
-- the second lock. That is enough, because a reader keeps polling while appenders are in flight and
-- sleeps only when there are none (docs/decisions/0005).
--
-- SECURITY DEFINER: a role that may insert needs no privilege on the sequence. Every name is
-- qualified and operators are called as functions instead of setting search_path: the same
-- protection against a caller's search_path, at a third of the cost (20 of 35 µs an append).
-- Functions are called in assignments, which plpgsql evaluates without a separate query, unlike
-- PERFORM. Each expression and each function in it costs, because plpgsql prepares them for every
-- transaction; what is constant, the planner computes once (docs/decisions/0005).
--
-- Once per session: refuse to append if there are rows above the sequence, because new positions
-- would fill gaps that readers have passed, and if the log was moved. At every append this check would
-- cost a tenth; no session survives a restore or a failover.
create or replace function {schema}.before_append() returns trigger
language plpgsql volatile security definer as $$
declare
  own_id pg_catalog.xid8;
  floor bigint;
  done pg_catalog.text;
begin
  if pg_catalog.pg_current_xact_id_if_assigned() is null then
    own_id := pg_catalog.pg_current_xact_id();
  else
    declare
      marker constant pg_catalog.text := pg_catalog.concat('milepost.appending_', tg_relid);
      own_id constant pg_catalog.text := pg_catalog.pg_current_xact_id();
    begin
      if pg_catalog.texteq(pg_catalog.current_setting(marker, true), own_id) then
        return null;
      end if;
      done := pg_catalog.set_config(marker, own_id, true);
    end;
  end if;
  if pg_catalog.texteq(
    pg_catalog.current_setting(
      pg_catalog.textcat(
        'milepost.checked_',
        '{schema}.messages'::pg_catalog.regclass::pg_catalog.oid::pg_catalog.text
      ),
      true
    ),
    'yes'
  ) is not true then
    done := {schema}.refuse_moved();
    done := {schema}.refuse_foreign_rows();
    done := pg_catalog.set_config(
      pg_catalog.concat('milepost.checked_', '{schema}.messages'::pg_catalog.regclass::bigint),
      case when {schema}.adopt_log() then 'yes' else 'read' end,
      false
    );
  end if;
  floor := coalesce(pg_catalog.pg_sequence_last_value('{schema}.messages_position_seq'), 0);
  -- No appender takes a key exclusively. If another session does or waits to, a lower floor is
  -- safe.
  while not pg_catalog.pg_try_advisory_xact_lock_shared(
    pg_catalog.int8or(
      pg_catalog.int8shl('{schema}.messages'::pg_catalog.regclass::bigint, 32),
      pg_catalog.int8and(floor, 4294967295)
    )
  ) loop
    floor := pg_catalog.int8mi(floor, 1);
  end loop;
  -- A message that is visible must be durable (see last_message).
  if pg_catalog.texteq(pg_catalog.current_setting('synchronous_commit'), 'off') then
    done := pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  if pg_catalog.texteq(pg_catalog.current_setting('milepost.notify', true), 'off') is not true
    and pg_catalog.pg_try_advisory_xact_lock(
      pg_catalog.int8um('{schema}.messages'::pg_catalog.regclass::bigint)
    )
  then
    done := pg_catalog.pg_notify({channel}, '');
  end if;
  return null;
end;
$$;
