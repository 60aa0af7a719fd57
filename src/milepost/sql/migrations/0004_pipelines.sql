-- Pipelines: processors whose work is done by Spark. Their checkpoints are in `checkpoints`.

-- What a pipeline reports of itself and what its operators ask of it, a row for each version of
-- its target. Written at a change of state and about once a second of work, never in the
-- transaction of a batch; but for spark_batch, see note_spark_batch.sql.
--
-- A version is a table that was filled, with a checkpoint; `target` is the view that shows the table
-- of the active one. `code_version` is that of the code which fills it. A version that has been
-- active has a `built_at`; one that has none is being filled by a rebuild.
create table {schema}.pipelines (
  name text not null,
  version integer not null,
  topics text[],
  types text[],
  code_version integer not null,
  sink text not null,
  target_schema text,
  target text,
  target_table text,
  is_active boolean not null default false,
  built_at timestamptz,
  is_paused boolean not null default false,
  hold_until timestamptz,
  state text not null default 'stopped',
  owner text,
  spark_run text,
  spark_batch bigint,
  batches bigint not null default 0,
  rows bigint not null default 0,
  batches_per_second double precision not null default 0,
  rows_per_second double precision not null default 0,
  phases_ms jsonb,
  last_error text,
  last_error_at timestamptz,
  started_at timestamptz,
  reported_at timestamptz not null default clock_timestamp(),
  constraint pipelines_pkey primary key (name, version),
  constraint pipelines_name_length check (char_length(name) between 1 and 255)
) with (fillfactor = 50);

create unique index pipelines_active on {schema}.pipelines (name) where is_active;
