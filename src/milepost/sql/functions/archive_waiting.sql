-- For how long the first message waits that the policy wants to be archived; null: none does, or there is
-- no archive. Since when a message waits is not known if it was kept for its number: not before the
-- last file, or the policy.
create or replace function {schema}.archive_waiting(out waiting_seconds double precision)
language sql volatile
begin atomic
  select extract(
    epoch from clock_timestamp() - greatest(
      newest.written_at,
      case when r.archive_after is null and r.keep_messages is not null then r.changed_at end,
      case
        when isfinite(first.recorded_at)
          then first.recorded_at + coalesce(r.archive_after, r.keep, interval '0')
      end
    )
  )::float8
  from {schema}.retention as r
  cross join {schema}.archive_end() as archived
  cross join {schema}.archivable_up_to(1) as wanted
  cross join lateral (
    select m.transaction_id, m."position", m.recorded_at
    from {schema}.messages as m
    where (m.transaction_id, m."position") > (archived.transaction_id, archived."position")
    order by m.transaction_id, m."position"
    limit 1
  ) as first
  left join lateral (
    select a.written_at
    from {schema}.archive as a
    order by a.last_transaction_id desc, a.last_position desc
    limit 1
  ) as newest on true
  where r.archive is not null
    and (first.transaction_id, first."position") <= (wanted.transaction_id, wanted."position");
end;
