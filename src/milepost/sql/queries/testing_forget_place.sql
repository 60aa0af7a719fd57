-- Each copy of this database is a log of its own, not one that was restored.
update {schema}.log
set system_identifier = null, timeline = null, database_oid = null, table_oid = null
