-- Take the rows that violate an expectation out of what the given task attempts have staged, so that
-- the merge does not find them, and count them. Returns for each expectation how many rows violate
-- it, and the key of one of them. `on_violation`:
--   fail       they stay: the caller rolls back if there are any
--   drop       they are deleted
--   set_aside  they are deleted and inserted into `rejected`, with the range that they come from
-- `total`: how many rows are staged. Bit n of `_violated` says whether a row violates expectation n.
--
-- In the transaction of the merge, behind the lock on the checkpoint.
create or replace function {schema}.sift_staged(
  pipeline text, version integer, staging text, attempts bigint[], total bigint,
  expectations text[], on_violation text, rejected regclass,
  columns text[], types text[], key_columns text[],
  after {schema}.position, last {schema}.position
) returns table (expectation text, violated bigint, example text)
language plpgsql volatile as $$
#variable_conflict use_column
declare
  violating constant text := format(
    'from {schema}.%I as s where s._attempt = any($1) and s._violated <> 0', staging
  );
  key_list constant text := (
    select string_agg(format('s.%I', c), ', ' order by n)
    from unnest(key_columns) with ordinality as x (c, n)
  );
  output constant text := (
    select string_agg(format('s.%I::%s as %1$I', c, t), ', ' order by n)
    from unnest(columns, types) with ordinality as x (c, t, n)
  );
  found_any boolean := false;
begin
  for expectation, violated, example in execute
    -- Few combinations of violations occur, so the rows are read once.
    format(
      'with masks as materialized (
        select s._violated as mask, count(*) as number, %s as example %s group by s._violated
      )
      select e.name, coalesce(sum(m.number), 0)::bigint, min(m.example)
      from unnest($2) with ordinality as e (name, n)
      left join masks as m on (m.mask >> (e.n - 1)::integer) & 1 = 1
      group by e.name, e.n
      order by e.n',
      coalesce(format('left(min(row(%s)::text), 200)', key_list), 'null::text'), violating
    )
    using attempts, expectations
  loop
    found_any := found_any or violated > 0;
    insert into {schema}.pipeline_expectations as x (pipeline, version, expectation, passed, violated)
    values (
      sift_staged.pipeline, sift_staged.version, sift_staged.expectation,
      sift_staged.total - sift_staged.violated, sift_staged.violated
    )
    on conflict on constraint pipeline_expectations_pkey do update
    set passed = x.passed + excluded.passed, violated = x.violated + excluded.violated;
    return next;
  end loop;
  if not found_any or on_violation = 'fail' then
    return;
  end if;
  if on_violation = 'set_aside' then
    execute format(
      'insert into %s (
        rejected_at, expectations, data, after_transaction_id, after_position, last_transaction_id,
        last_position
      )
      select
        clock_timestamp(),
        array(
          select e.name from unnest($2) with ordinality as e (name, n)
          where (s._violated >> (e.n - 1)::integer) & 1 = 1
          order by e.n
        ),
        (select to_jsonb(o.*) from (select %s) as o), $3, $4, $5, $6
      %s',
      rejected, output, violating
    )
    using attempts, expectations, (sift_staged.after).transaction_id, (sift_staged.after).position,
      (sift_staged.last).transaction_id, (sift_staged.last).position;
  end if;
  execute format(
    'delete from {schema}.%I as s where s._attempt = any($1) and s._violated <> 0', staging
  ) using attempts;
end;
$$;
