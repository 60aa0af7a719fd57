-- The heartbeat of an instance: it is alive, and its claims are extended by `claim_seconds` from
-- now by this server's clock. Returns its segments (parallel arrays), its fair share of segments,
-- and the number of seconds until the next claim or instance of others expires.
--
-- The row of a dead instance is removed by the first one that sees it (SKIP LOCKED: the others need
-- not wait).
create or replace function {schema}.tend_claims(
  processor text,
  version integer,
  owner text,
  claim_seconds double precision,
  rate double precision default 0,
  out ids integer[],
  out epochs bigint[],
  out wanted boolean[],
  out share integer,
  out next_expiry_seconds double precision
)
language plpgsql volatile as $$
#variable_conflict use_column
declare
  until constant timestamptz := clock_timestamp() + make_interval(secs => tend_claims.claim_seconds);
begin
  -- `claim_seconds` is inserted and never updated: an owner does not change it.
  insert into {schema}.instances (processor, version, owner, alive_until, rate, claim_seconds)
  values (
    tend_claims.processor, tend_claims.version, tend_claims.owner, until, tend_claims.rate,
    tend_claims.claim_seconds
  )
  on conflict (processor, version, owner) do update
  set alive_until = excluded.alive_until, rate = excluded.rate;
  delete from {schema}.instances as dead
  using (
    select i.owner from {schema}.instances as i
    where i.processor = tend_claims.processor
      and i.version = tend_claims.version
      and i.alive_until < clock_timestamp()
    for update skip locked
  ) as found
  where dead.processor = tend_claims.processor
    and dead.version = tend_claims.version
    and dead.owner = found.owner;

  -- In the order of their ids, like all functions that change several: no deadlocks.
  with held as materialized (
    select s.id from {schema}.segments as s
    where s.processor = tend_claims.processor
      and s.version = tend_claims.version
      and s.owner = tend_claims.owner
    order by s.id
    for update
  ),
  extended as (
    update {schema}.segments as s
    set claimed_until = until
    from held
    where s.processor = tend_claims.processor
      and s.version = tend_claims.version
      and s.id = held.id
    returning s.id, s.epoch, coalesce(s.wanted_until > clock_timestamp(), false) as is_wanted
  )
  select coalesce(array_agg(e.id order by e.id), '{}'),
    coalesce(array_agg(e.epoch order by e.id), '{}'),
    coalesce(array_agg(e.is_wanted order by e.id), '{}')
  into ids, epochs, wanted
  from extended as e;

  share := {schema}.fair_share(tend_claims.processor, tend_claims.version, tend_claims.owner);

  select extract(epoch from min(expiry.at) - clock_timestamp())
  into next_expiry_seconds
  from (
    select i.alive_until as at from {schema}.instances as i
    where i.processor = tend_claims.processor
      and i.version = tend_claims.version
      and i.owner <> tend_claims.owner
    union all
    select greatest(s.claimed_until, s.wanted_until) from {schema}.segments as s
    where s.processor = tend_claims.processor
      and s.version = tend_claims.version
      and s.owner is distinct from tend_claims.owner
  ) as expiry;
end;
$$;
