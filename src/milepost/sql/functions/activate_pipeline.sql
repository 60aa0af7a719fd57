-- Make one version of a pipeline the active one, in the caller's transaction. A pause applies to
-- the pipeline, not to a version: it continues for the new version.
create or replace function {schema}.activate_pipeline(pipeline text, version integer) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
  was_paused boolean;
begin
  -- In two statements: two versions must never be active together.
  update {schema}.pipelines as p
  set is_active = false, hold_until = null
  where p.name = activate_pipeline.pipeline and p.is_active
    and p.version <> activate_pipeline.version
  returning p.is_paused into was_paused;
  update {schema}.pipelines as p
  set is_active = true,
    is_paused = coalesce(was_paused, p.is_paused),
    -- Its rebuild has ended; the driver that runs it will report itself.
    state = case when p.built_at is null then 'stopped' else p.state end,
    built_at = coalesce(p.built_at, clock_timestamp()),
    hold_until = null
  where p.name = activate_pipeline.pipeline and p.version = activate_pipeline.version;
end;
$$;
