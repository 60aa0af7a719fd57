select pg_xact_status(%(id)s::text::xid8)
