-- These files were removed.
delete from {schema}.archive_replaced where name = any(%(names)s::text[])
