-- The oldest scheduled job of each channel, and how many are overdue, are found without reading the
-- jobs that are not due yet (metrics_queue). Instead of the index by channel alone, which this one
-- replaces: a scheduled job has no more indexes than before.
drop index {schema}.jobs_scheduled_channel;
create index jobs_scheduled_channel on {schema}.jobs (channel, run_at) where status = 'scheduled';
