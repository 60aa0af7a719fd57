-- Which of these running jobs were asked to stop.
select j.id from {schema}.jobs as j
where j.id = any(%(ids)b::bigint[]) and j.is_cancelled and j.locked_until is not null
