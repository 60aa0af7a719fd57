-- Before a column is added to jobs, while workers of the previous release run. Its functions take()
-- and take_from() return rows of jobs. A take that waits for the lock of a migration that adds a
-- column goes on with a plan for fewer columns, and fails. So until the functions are replaced, in
-- the last step, they return the columns of now, by name. This step locks no table.
--
-- The former functions are renamed, not dropped: a statement that is just running may still call
-- them, and would fail with "cache lookup failed". The release after this one drops them.
do $do$
declare
  columns constant text := (
    select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
    where attrelid = '{schema}.jobs'::regclass and attnum > 0 and not attisdropped
  );
  found record;
begin
  execute (
    select format(
      'create type {schema}.job_of_before as (%s)',
      string_agg(
        format(
          '%I %s %s', attname, format_type(atttypid, atttypmod),
          -- A prepared statement fails if the type of its result changes, the collation included.
          'collate ' || nullif(attcollation, 0)::regcollation
        ),
        ', ' order by attnum
      )
    )
    from pg_attribute
    where attrelid = '{schema}.jobs'::regclass and attnum > 0 and not attisdropped
  );
  for found in
    select
      p.oid as id, p.oid::regprocedure as signature, p.proname as name, p.prosrc as body,
      pg_get_functiondef(p.oid) as definition,
      replace(
        regexp_replace(p.prosrc, 'select \*(\s+from)', 'select ' || columns || '\1', 'g'),
        'returning j.*', 'returning j.' || replace(columns, ', ', ', j.')
      ) as fixed_body
    from pg_proc as p
    where p.pronamespace = '{schema}'::regnamespace and p.proretset
      and p.prorettype = '{schema}.jobs'::regtype
  loop
    execute format('alter function %s rename to %I', found.signature, found.name || '_before_column');
    execute replace(
      pg_get_functiondef(found.id), found.body,
      regexp_replace(
        found.fixed_body, '\m' || found.name || '\.', found.name || '_before_column.', 'g'
      )
    );
    execute replace(
      regexp_replace(
        found.definition, 'RETURNS SETOF \S+', 'RETURNS SETOF {schema}.job_of_before'
      ),
      found.body, found.fixed_body
    );
  end loop;
end;
$do$;
