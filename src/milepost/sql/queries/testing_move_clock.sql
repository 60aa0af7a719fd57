-- As if so much time had passed: all times of schedules, jobs and claims are put earlier.
with schedules as (
  update {schema}.schedules as s
  set begun_at = s.begun_at - %(by)s, next_at = s.next_at - %(by)s, run_at = s.run_at - %(by)s,
    retry_at = s.retry_at - %(by)s, last_tick_at = s.last_tick_at - %(by)s,
    last_seen_at = s.last_seen_at - %(by)s
), jobs as (
  update {schema}.jobs as j
  set run_at = j.run_at - %(by)s, locked_until = j.locked_until - %(by)s,
    created_at = j.created_at - %(by)s, finished_at = j.finished_at - %(by)s,
    kept_until = j.kept_until - %(by)s
), channels as (
  update {schema}.channels as c
  set next_release_at = c.next_release_at - %(by)s, rate_at = c.rate_at - %(by)s
)
update {schema}.segments as s
set claimed_until = s.claimed_until - %(by)s, wanted_until = s.wanted_until - %(by)s
where s.claimed_until is not null or s.wanted_until is not null
