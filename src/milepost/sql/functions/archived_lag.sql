-- What a consumer that has handled everything up to `after` has still to read from the archive,
-- because it was removed from the table. Nothing is read from the files: `messages` counts only
-- those of whole files, and if there may be more, `is_exact` is false. `oldest`: when the first of
-- them was recorded, or a time shortly after it.
--
-- In plpgsql, as is_archived: who was granted privileges before there was an archive needs none on it
-- until messages are removed.
create or replace function {schema}.archived_lag(
  after {schema}.position,
  topics text[] default null,
  types text[] default null,
  out messages bigint,
  out is_exact boolean,
  out oldest timestamptz
)
language plpgsql stable as $$
#variable_conflict use_column
declare
  removed {schema}.position;
begin
  select l.removed_transaction_id, l.removed_position into removed from {schema}.log as l;
  if archived_lag.after >= removed then
    messages := 0;
    is_exact := true;
    return;
  end if;
  select
    coalesce(sum(case when f.is_whole and f.is_unfiltered then f.messages end), 0),
    coalesce(bool_and(f.is_whole and f.is_unfiltered), true),
    min(case when f.is_begun then f.recorded_to else f.recorded_from end)
  into messages, is_exact, oldest
  from (
    select
      a.messages,
      a.recorded_from,
      a.recorded_to,
      row(a.after_transaction_id, a.after_position)::{schema}.position < archived_lag.after as is_begun,
      row(a.after_transaction_id, a.after_position)::{schema}.position >= archived_lag.after
        and row(a.last_transaction_id, a.last_position)::{schema}.position <= removed as is_whole,
      -- A file with one topic has only messages of that topic.
      (archived_lag.topics is null or a.topics <@ archived_lag.topics)
        and (archived_lag.types is null or a.types <@ archived_lag.types) as is_unfiltered
    from {schema}.archive as a
    where (a.last_transaction_id, a.last_position)
        > ((archived_lag.after).transaction_id, (archived_lag.after).position)
      and (a.after_transaction_id, a.after_position)
        < ((removed).transaction_id, (removed).position)
      and a.messages > 0
      and (archived_lag.topics is null or a.topics is null or a.topics && archived_lag.topics)
      and (archived_lag.types is null or a.types is null or a.types && archived_lag.types)
  ) as f;
end;
$$;
