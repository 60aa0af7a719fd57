-- The part of append_conditionally() that leaves out messages whose ids the log has.
--
-- The unique index makes it exact: an INSERT of an id that another transaction is inserting waits for
-- that one. If it commits, nothing is inserted here; if it rolls back, this one inserts. The conflict
-- is not named, because that would need the privilege to read the id.
--
-- A message that retention removes at this moment is not found before the INSERT, and does not
-- prevent it. So the ids are looked up again, and the first message of an id must be the one that
-- was inserted here.
--
-- Ids are compared with NOT IN (select ...), which the server hashes, also in a generic plan: with
-- <> ALL it would compare each with each.
create or replace function {schema}.append_missing(
  ids uuid[], topics text[], keys text[], types text[], data json[], metadata json[],
  newer_key text, newer_after {schema}.position, newer_types text[]
) returns table (transaction_id bigint, "position" bigint, is_new boolean)
language plpgsql volatile set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  known uuid[];
  own bigint[] := '{}';
  own_id bigint;
  answer {schema}.position[];
  number_new bigint;
begin
  perform {schema}.refuse_unsafe_condition();
  perform {schema}.refuse_unindexed('messages_id', 'an append with once', '--with-id-index');
  if newer_key is not null then
    perform {schema}.lock_key(newer_key);
  end if;
  known := array(select k.id from {schema}.known_ids(ids) as k);
  if exists (
    select from unnest(ids) as g (id) where g.id is null or g.id not in (select unnest(known))
  ) then
    if newer_key is not null then
      perform {schema}.refuse_newer(newer_key, newer_after, newer_types, known);
    end if;
    with appended as (
      insert into {schema}.messages (id, topic, key, type, data, metadata)
      select g.id, g.topic, g.key, g.type, g.data, g.metadata
      from unnest(ids, topics, keys, types, data, metadata)
        with ordinality as g (id, topic, key, type, data, metadata, ordinality)
      where g.id is null or g.id not in (select unnest(known))
      order by g.ordinality
      on conflict do nothing
      returning {schema}.last_position() as "position"
    )
    select coalesce(array_agg(a."position"), '{}') into own from appended as a;
    own_id := {schema}.transaction_id();
  end if;
  select
    array_agg(row(k.transaction_id, k."position")::{schema}.position order by g.ordinality),
    count(distinct k.id) filter (
      where k.transaction_id = own_id and k."position" in (select unnest(own))
    )
  into answer, number_new
  from unnest(ids) with ordinality as g (id, ordinality)
  join (
    select distinct on (found.id) found.id, found.transaction_id, found."position"
    from {schema}.known_ids(ids) as found
    order by found.id, found.transaction_id, found."position"
  ) as k on k.id = g.id;
  if cardinality(ids) > coalesce(cardinality(answer), 0) or cardinality(own) > number_new then
    raise exception 'retention removed a message at the moment when it was appended again'
      using errcode = 'serialization_failure', hint = 'Nothing was appended. Try again.';
  end if;
  return query
  select
    a.transaction_id, a."position",
    a.transaction_id is not distinct from own_id and a."position" in (select unnest(own))
  from unnest(answer) with ordinality as a (transaction_id, "position", ordinality)
  order by a.ordinality;
end;
$$;
