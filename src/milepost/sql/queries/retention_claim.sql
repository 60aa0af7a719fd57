-- Whether it is time to remove, and this process does it. Others do not until then.
update {schema}.retention
set removal_at = clock_timestamp()
where (keep is not null or keep_messages is not null)
  and (
    removal_at is null or removal_at <= clock_timestamp() - make_interval(secs => %(every_seconds)s)
  )
returning removal_at
