delete from {schema}.inbox
where processor = %(processor)s
  and version = %(version)s
  and (transaction_id, "position") <= (%(transaction_id)s, %(position)s)
  and handled_at < clock_timestamp() - make_interval(secs => %(keep_seconds)s)
