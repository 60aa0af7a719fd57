-- An error if the log has messages of a key (and of these types) after a position: what the caller
-- has not read. From here until its end, the transaction is the only one that may append with a
-- condition on this key, so what is true now stays true until it commits.
--
-- The lock comes first. The messages are looked for by a later statement, whose snapshot sees every
-- message of a transaction that had the lock before.
--
-- In transaction order, a transaction that is older than a message of the key is refused too, for all
-- types: its own messages would sort before that one, where nobody who has read it would look. This
-- transaction draws its id here, after the lock, unless it has written before. In append order all
-- messages have the same transaction id.
--
-- They are looked for in the table and among those that were removed by one statement, because a
-- removal moves them from one to the other. Removed ones are the older ones. The key is compared as
-- part of the row, not for equality: only the index has that order, so that the planner has no reason
-- to walk the primary key and filter. It plans once for a session.
--
-- SECURITY DEFINER: an appender needs no privilege to read. It learns only the positions of messages
-- whose key it knows. `own_ids` do not count. Functions are called in assignments: see
-- append_order/before_append.sql.
create or replace function {schema}.refuse_newer(
  key text, after {schema}.position, types text[] default null, own_ids uuid[] default '{}'
) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set jit = off set enable_sort = off set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  own_id bigint;
  bound {schema}.position;
  newer text[];
  done text;
begin
  if refuse_newer.key is null or not (refuse_newer.after is not null) then
    raise exception 'a condition needs a key and a position, and the % is null',
      case when refuse_newer.key is null then 'key' else 'position' end
      using errcode = 'null_value_not_allowed',
      hint = 'Nothing was written. If nothing was read, the position is row(0, 0).';
  end if;
  done := {schema}.refuse_unsafe_condition();
  done := {schema}.refuse_unindexed('messages_key', 'a condition on a key', '--with-key-index');
  done := {schema}.lock_key(refuse_newer.key);
  own_id := {schema}.transaction_id();
  bound := least(refuse_newer.after, row(own_id, 9223372036854775807)::{schema}.position);
  newer := array(
    select r.transaction_id || ':' || r."position"
    from {schema}.removed_messages as r
    where r.key is not null
      and (r.key, r.transaction_id, r."position")
        > (refuse_newer.key, (bound).transaction_id, (bound).position)
      and r.key <= refuse_newer.key
      and (refuse_newer.types is null or r.type = any(refuse_newer.types))
      and r.id not in (select unnest(refuse_newer.own_ids))
    order by r.key, r.transaction_id, r."position"
    limit 100
  ) || array(
    select m.transaction_id || ':' || m."position"
    from {schema}.messages as m
    where m.key is not null
      and (m.key, m.transaction_id, m."position")
        > (refuse_newer.key, (bound).transaction_id, (bound).position)
      and m.key <= refuse_newer.key
      and (
        refuse_newer.types is null or m.type = any(refuse_newer.types) or m.transaction_id > own_id
      )
      and m.id not in (select unnest(refuse_newer.own_ids))
    order by m.key, m.transaction_id, m."position"
    limit 100
  );
  if newer = '{}' then
    done := {schema}.refuse_lost(refuse_newer.after);
    done := {schema}.refuse_beyond(refuse_newer.after);
    return;
  end if;
  raise exception 'messages of key % were appended after position %:%, at %',
    quote_literal(refuse_newer.key), (after).transaction_id, (after).position,
    array_to_string(newer[1:5], ', ') || case when cardinality(newer) > 5 then ' ...' else '' end
    using errcode = 'MP010',
    detail = json_build_object(
      'key', refuse_newer.key,
      'after', (after).transaction_id || ':' || (after).position,
      'positions', newer[1:100]
    )::text,
    hint = 'Nothing was appended. Roll back, read the messages of the key again, decide again, and append in a new transaction.';
end;
$$;
