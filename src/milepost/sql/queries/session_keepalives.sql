-- Lets the server notice within half a minute that our host is gone without a word, and free the
-- row locks of its transaction. Without effect on a unix socket, which needs none.
select
  set_config('tcp_keepalives_idle', '10', false),
  set_config('tcp_keepalives_interval', '5', false),
  set_config('tcp_keepalives_count', '3', false)
