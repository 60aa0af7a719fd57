-- The policy of retention and the archive, for metrics(). `removal_waiting_seconds` and
-- `archive_waiting_seconds`: for how long the oldest message is old enough and still there, or not
-- archived; null if none is, or if there is no such policy. Only `keep` and `archive_after` tell of a
-- time; what goes for its number alone waits since the last file, or since the policy was changed.
-- `gate`: the consumer that is furthest behind, which keeps messages in the log. The sums are over the
-- files of the archive, which are few and large.
create or replace function {schema}.metrics_retention() returns json
language plpgsql volatile
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
begin
  return (
    select json_build_object(
      'keep_seconds', extract(epoch from r.keep)::float8,
      'keep_messages', r.keep_messages,
      'has_archive', coalesce(r.archive is not null, false),
      'archive_after_seconds', extract(epoch from r.archive_after)::float8,
      'removed_transaction_id', l.removed_transaction_id,
      'removed_position', l.removed_position,
      'removal_waiting_seconds', case
        when r.keep is null and r.keep_messages is null then null
        when r.keep_messages is not null
          and newest."position" - oldest."position" < r.keep_messages then null
        when r.keep is not null
          then greatest({schema}.age_seconds(oldest.recorded_at + r.keep), 0)
        else {schema}.age_seconds(greatest(r.changed_at, r.removal_at, oldest.recorded_at))
      end,
      'gate', gate.consumer,
      'gate_transaction_id', gate.transaction_id,
      'gate_position', gate."position",
      'archive_files', files.number,
      'archive_messages', files.messages,
      'archive_bytes', files.bytes,
      'archived_transaction_id', archived.transaction_id,
      'archived_position', archived."position",
      'archive_waiting_seconds', archiving.waiting_seconds
    )
    from {schema}.log as l
    left join {schema}.retention as r on true
    left join lateral (
      select m."position", m.recorded_at from {schema}.messages as m
      order by m.transaction_id, m."position" limit 1
    ) as oldest on true
    left join lateral (
      select m."position" from {schema}.messages as m
      order by m.transaction_id desc, m."position" desc limit 1
    ) as newest on true
    left join lateral (
      select g.consumer, g.transaction_id, g."position" from {schema}.retention_gates() as g limit 1
    ) as gate on true
    cross join lateral (
      select count(*) as number, coalesce(sum(a.messages), 0) as messages,
        coalesce(sum(a.bytes), 0) as bytes
      from {schema}.archive as a
    ) as files
    left join lateral {schema}.archive_end() as archived on r.archive is not null or files.number > 0
    left join lateral {schema}.archive_waiting() as archiving on r.archive is not null
  );
end;
$$;
