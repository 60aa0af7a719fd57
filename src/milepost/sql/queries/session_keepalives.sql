-- Lets the server notice within seconds that our process is gone, also in the middle of a
-- statement, and within half a minute that our host is, and free the row locks of its transaction.
-- The keep-alives are without effect on a unix socket, which needs none.
select
  set_config('client_connection_check_interval', '2s', false),
  set_config('tcp_keepalives_idle', '10', false),
  set_config('tcp_keepalives_interval', '5', false),
  set_config('tcp_keepalives_count', '3', false)
