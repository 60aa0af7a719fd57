-- Once per transaction, before its first position is drawn: register a floor below every position
-- that the transaction can draw, where the horizon finds it.
--
-- The floor is the sequence's last value. It is stored as the low half of the key of a shared
-- advisory lock: shared, so that appenders never wait for each other; at transaction level, so that
-- it is held until after the commit is visible, survives PREPARE TRANSACTION, and is released with
-- a rolled back savepoint together with the rows it covers. The marker that the lock is taken is
-- reset with the savepoint too. It contains the transaction's own id, so that a setting that was
-- left over or set by a user never matches.
--
-- NOTIFY serialises commits, so only one of the transactions in flight sends it: the one that gets
-- the second lock. That is enough, because a reader keeps polling while appenders are in flight and
-- sleeps only when there are none (docs/decisions/0005).
--
-- SECURITY DEFINER: a role that may insert needs no privilege on the sequence. Every name is
-- qualified and operators are called as functions instead of setting search_path: the same
-- protection against a caller's search_path, at a third of the cost (20 of 35 µs an append).
-- Functions are called in assignments, which plpgsql evaluates without a separate query, unlike
-- PERFORM.
--
-- Once per session: refuse to append if there are rows above the sequence, because new positions
-- would fill gaps that readers have passed, and after a failover. At every append this check would
-- cost a tenth; no session survives a failover.
create or replace function {schema}.before_append() returns trigger
language plpgsql volatile security definer as $$
declare
  marker constant pg_catalog.text := pg_catalog.concat('milepost.appending_', tg_relid);
  own_id constant pg_catalog.text := pg_catalog.pg_current_xact_id();
  checked constant pg_catalog.text := pg_catalog.concat('milepost.checked_', tg_relid);
  floor bigint;
  done pg_catalog.text;
begin
  if pg_catalog.texteq(pg_catalog.current_setting(marker, true), own_id) then
    return null;
  end if;
  if coalesce(pg_catalog.textne(pg_catalog.current_setting(checked, true), 'yes'), true) then
    done := {schema}.refuse_foreign_rows();
    done := {schema}.adopt_log();
    done := pg_catalog.set_config(checked, 'yes', false);
  end if;
  floor := coalesce(pg_catalog.pg_sequence_last_value('{schema}.messages_position_seq'), 0);
  -- No appender takes a key exclusively. If another session does or waits to, a lower floor is
  -- safe.
  while not pg_catalog.pg_try_advisory_xact_lock_shared(
    pg_catalog.int8or(
      pg_catalog.int8shl(tg_relid::bigint, 32), pg_catalog.int8and(floor, 4294967295)
    )
  ) loop
    floor := pg_catalog.int8mi(floor, 1);
  end loop;
  done := pg_catalog.set_config(marker, own_id, true);
  -- A message that is visible must be durable (see last_message).
  if pg_catalog.texteq(pg_catalog.current_setting('synchronous_commit'), 'off') then
    done := pg_catalog.set_config('synchronous_commit', 'local', true);
  end if;
  if coalesce(pg_catalog.textne(pg_catalog.current_setting('milepost.notify', true), 'off'), true)
    and pg_catalog.pg_try_advisory_xact_lock(pg_catalog.int8um(tg_relid::bigint))
  then
    done := pg_catalog.pg_notify({channel}, '');
  end if;
  return null;
end;
$$;
