-- After a take: what these channels gave since `mark` is spent of their rates. The caller holds the
-- locks of their rows, and has drawn `mark` under them; so nobody else has taken from them since,
-- and a take that is rolled back spends nothing. Counted from now, when all jobs of the take are
-- taken, and not from when the rate was asked: otherwise the next ones could come too soon by the
-- time in between.
create or replace function {schema}.spend_rates(channels text[], mark bigint) returns void
language plpgsql volatile
set jit = off set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
  update {schema}.channels as c
  set rate_at = greatest(c.rate_at, clock_timestamp())
    + given.number * p.rate_period / p.rate_count
  from {schema}.channel_policies() as p
  cross join lateral (
    select count(*) as number from {schema}.jobs as j
    where j.status = 'running' and j.channel = p.name collate "C" and j.taken > spend_rates.mark
  ) as given
  where c.name = any(spend_rates.channels collate "C") and p.name = c.name collate "C"
    and given.number > 0;
end;
$$;
