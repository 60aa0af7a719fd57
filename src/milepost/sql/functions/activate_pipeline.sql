-- Let one version of a pipeline be the active one, in the caller's transaction. A pause is of the
-- pipeline, not of a version: it goes on in the new one.
create or replace function {schema}.activate_pipeline(pipeline text, version integer) returns void
language plpgsql volatile as $$
#variable_conflict use_column
declare
  was_paused boolean;
begin
  -- One after the other: at no moment may two be active.
  update {schema}.pipelines as p
  set is_active = false, hold_until = null
  where p.name = activate_pipeline.pipeline and p.is_active
    and p.version <> activate_pipeline.version
  returning p.is_paused into was_paused;
  update {schema}.pipelines as p
  set is_active = true,
    is_paused = coalesce(was_paused, p.is_paused),
    -- Whoever filled it is done; whoever runs it will say so.
    state = case when p.built_at is null then 'stopped' else p.state end,
    built_at = coalesce(p.built_at, clock_timestamp()),
    hold_until = null
  where p.name = activate_pipeline.pipeline and p.version = activate_pipeline.version;
end;
$$;
