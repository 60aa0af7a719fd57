-- Make the target's name show the table of another version, in one transaction. Returns:
--   swapped
--   behind   the new version has not reached the position of the old one: fill it further
--   changed  a version other than `from_version` is active now
--   missing  there is no such version, or nothing of it was filled
-- The epochs of both increase: this fences the driver that fills the old one, and a rebuild that
-- was considered dead. A fenced driver checks again which version is active.
--
-- Locks: checkpoints before pipelines, in the same order as a batch, and by version, so that two
-- swaps cannot deadlock. With these locks nothing moves between the comparison and the swap.
-- Readers wait behind the lock on the view, hence the short lock timeout.
create or replace function {schema}.swap_pipeline(
  pipeline text, from_version integer, to_version integer, must_have_caught_up boolean
) returns text
language plpgsql volatile set lock_timeout = '2s' as $$
#variable_conflict use_column
declare
  active_version integer;
  coming {schema}.pipelines;
  is_behind boolean;
begin
  perform from {schema}.checkpoints as c
  where c.processor = swap_pipeline.pipeline and c.segment = 0
    and c.version in (swap_pipeline.from_version, swap_pipeline.to_version)
  order by c.version
  for update;
  perform from {schema}.pipelines as p
  where p.name = swap_pipeline.pipeline
  order by p.version
  for update;

  select p.version into active_version
  from {schema}.pipelines as p
  where p.name = swap_pipeline.pipeline and p.is_active;
  if active_version is distinct from swap_pipeline.from_version then
    return 'changed';
  end if;
  select p.* into coming
  from {schema}.pipelines as p
  where p.name = swap_pipeline.pipeline and p.version = swap_pipeline.to_version;
  if not found or to_regclass(format('%I.%I', coming.target_schema, coming.target_table)) is null then
    return 'missing';
  end if;
  select (new.transaction_id, new."position") < (old.transaction_id, old."position") into is_behind
  from {schema}.checkpoints as new
  left join {schema}.checkpoints as old
    on old.processor = new.processor and old.segment = 0
    and old.version = swap_pipeline.from_version
  where new.processor = swap_pipeline.pipeline and new.segment = 0
    and new.version = swap_pipeline.to_version;
  if not found then
    return 'missing';
  elsif is_behind and swap_pipeline.must_have_caught_up then
    return 'behind';
  end if;

  perform {schema}.show_target(coming.target_schema, coming.target, coming.target_table);
  perform {schema}.activate_pipeline(swap_pipeline.pipeline, swap_pipeline.to_version);
  update {schema}.checkpoints as c
  set epoch = c.epoch + 1
  where c.processor = swap_pipeline.pipeline and c.segment = 0
    and c.version in (swap_pipeline.from_version, swap_pipeline.to_version);
  return 'swapped';
end;
$$;
