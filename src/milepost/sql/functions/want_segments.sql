-- The heartbeat of an operator that wants these segments (all, if `ids` is null): owners see it at
-- their next heartbeat, flush and release them; no other instance may claim them until
-- `claim_seconds` after the last call. Extends the claims that the operator has, claims free
-- segments, and returns both; the operator has all of them when the result is complete. No row:
-- another operator wants one of them.
--
-- All or none, with the rows locked in the order of their ids: two operators never wait for each
-- other's segments.
create or replace function {schema}.want_segments(
  processor text,
  version integer,
  operator text,
  ids integer[],
  claim_seconds double precision
) returns table (id integer, mask integer, epoch bigint, is_claimed boolean, owner text)
language plpgsql volatile set lock_timeout = '2s' as $$
#variable_conflict use_column
begin
  perform from {schema}.segments as s
  where s.processor = want_segments.processor
    and s.version = want_segments.version
    and (want_segments.ids is null or s.id = any(want_segments.ids))
  order by s.id
  for update;
  if exists (
    select from {schema}.segments as s
    where s.processor = want_segments.processor
      and s.version = want_segments.version
      and (want_segments.ids is null or s.id = any(want_segments.ids))
      and s.wanted_by <> want_segments.operator
      and s.wanted_until > clock_timestamp()
  ) then
    return;
  end if;
  update {schema}.segments as s
  set wanted_by = want_segments.operator,
    wanted_until = clock_timestamp() + make_interval(secs => want_segments.claim_seconds),
    claimed_until = case
      when s.owner = want_segments.operator
        then clock_timestamp() + make_interval(secs => want_segments.claim_seconds)
      else s.claimed_until
    end
  where s.processor = want_segments.processor
    and s.version = want_segments.version
    and (want_segments.ids is null or s.id = any(want_segments.ids));
  perform {schema}.claim_segments(
    want_segments.processor, want_segments.version, want_segments.operator, null,
    want_segments.claim_seconds, want_segments.ids
  );
  return query
  select s.id, s.mask, s.epoch, s.owner is not distinct from want_segments.operator, s.owner
  from {schema}.segments as s
  where s.processor = want_segments.processor
    and s.version = want_segments.version
    and (want_segments.ids is null or s.id = any(want_segments.ids))
  order by s.id;
end;
$$;
