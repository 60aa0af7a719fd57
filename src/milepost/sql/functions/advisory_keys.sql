-- The keys of all advisory locks that Milepost takes, as pg_locks shows them; a null objid: any. Who
-- takes such a lock for Milepost has `privilege` on some column of `relation`.
--
-- Such locks have no owner: a role that may only connect can take each of them. The only list of
-- them: health_advisory.sql compares with it. A test finds what is missing.
create or replace function {schema}.advisory_keys() returns table (
  what text, classid bigint, objid bigint, objsubid integer, relation regclass, privilege text
)
language sql stable as $$
  with named (what, key, relation, privilege) as (
    select
      'the removal of old messages', hashtextextended('milepost.removal.{schema}', 0),
      '{schema}.replays'::regclass, 'insert'
    union all
    select
      'the creation of indexes', hashtextextended('milepost.index.{schema}', 0),
      '{schema}.log', 'update'
    union all
    select
      'migrations', hashtextextended('milepost.migrate.' || {channel}, 0), '{schema}.log', 'update'
    union all
    select
      'the archive', hashtextextended('milepost.archive.{schema}', 0), '{schema}.archive', 'insert'
    union all
    select
      'the files of the archive', hashtextextended('milepost.archive.files.{schema}', 0),
      '{schema}.archive', 'insert'
    union all
    select
      'the demo', hashtextextended('milepost.demo.{schema}', 0), '{schema}.log', 'update'
    union all
    select distinct
      format('the pipeline %L', p.name),
      hashtextextended('milepost.pipeline.{schema}.' || p.name, 0),
      '{schema}.pipelines'::regclass, 'update'
    from {schema}.pipelines as p
    union all
    select distinct
      format('the target %L', p.target),
      hashtextextended('milepost.target.' || p.target_schema || '.' || p.target, 0),
      '{schema}.pipelines'::regclass, 'update'
    from {schema}.pipelines as p
    where p.target is not null
    union all
    select distinct
      format('the instance %L', i.owner), hashtextextended('milepost.owner.{schema} ' || i.owner, 0),
      '{schema}.checkpoints'::regclass, 'update'
    from {schema}.instances as i
    union all
    -- Created by the owner, or by a role that runs pipelines.
    select
      format('the staging table %s', c.relname),
      hashtextextended('milepost.staging.{schema}.' || c.relname, 0),
      case when c.relname like 'staging\_spark\_%' then '{schema}.messages'
        else '{schema}.pipelines' end::regclass,
      case when c.relname like 'staging\_spark\_%' then 'insert' else 'update' end
    from pg_class as c
    where c.relnamespace = '{schema}'::regnamespace and c.relname like 'staging\_%'
    union all
    select
      'the notification of appends', -'{schema}.messages'::regclass::bigint,
      '{schema}.messages', 'insert'
    union all
    select
      'the notification of puts', -'{schema}.jobs'::regclass::bigint - other,
      '{schema}.jobs', 'select'
    from unnest(array[0, 4294967296]) as other
  )
  select n.what, (n.key >> 32) & 4294967295, n.key & 4294967295, 1, n.relation, n.privilege
  from named as n
  union all
  -- The turns of processors: two numbers.
  select
    format('the turn of the processor %L', p.name), (hashed >> 32) & 4294967295,
    hashed & 4294967295, 2, '{schema}.checkpoints', 'update'
  from {schema}.processors as p
  cross join lateral hashtextextended(
    p.name || ' ' || p.version::text, '{schema}.processors'::regclass::oid::bigint
  ) as hashed
  union all
  select
    'the appends to a key', '{schema}.messages_position_seq'::regclass::bigint, null, 1,
    '{schema}.messages', 'insert'
  union all
  select
    'the floor of an append', '{schema}.messages'::regclass::bigint, null, 1,
    '{schema}.messages', 'insert'
  union all
  select
    'a parked key', '{schema}.parked_keys'::regclass::bigint, null, 2,
    '{schema}.parked_keys', 'update'
$$;
