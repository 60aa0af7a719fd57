-- The server's time and the last id that was drawn for a job; null if the caller may not see it.
select clock_timestamp(), case
  when has_sequence_privilege('{schema}.jobs_id_seq', 'usage, select')
  then coalesce(pg_sequence_last_value('{schema}.jobs_id_seq'), 0)
end
