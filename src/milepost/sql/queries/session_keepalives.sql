-- Lets the server detect within seconds that our process is gone, also in the middle of a
-- statement, and within half a minute that our host is, and release the row locks of its
-- transaction. The keep-alives have no effect on a Unix socket, which needs none.
set client_connection_check_interval = '2s';
set tcp_keepalives_idle = 10;
set tcp_keepalives_interval = 5;
set tcp_keepalives_count = 3
