-- Between two tests that commit: what they have written. What was configured stays. A few rows are
-- deleted sooner than twenty tables are truncated.
delete from {schema}.messages;
delete from {schema}.lost_positions;
delete from {schema}.jobs;
delete from {schema}.job_dependencies;
delete from {schema}.job_endings;
delete from {schema}.channel_sizes;
delete from {schema}.channel_rates;
delete from {schema}.dead_letters;
delete from {schema}.parked_keys;
delete from {schema}.replays;
delete from {schema}.segment_floors;
delete from {schema}.segments;
delete from {schema}.checkpoints;
delete from {schema}.instances;
delete from {schema}.processors;
delete from {schema}.audit
