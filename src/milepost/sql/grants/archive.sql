-- archive: run the archiver. It reads all messages, and its word decides what may be removed: retention
-- removes what the manifest says is in a file. Trust this role with the whole log.
grant select, update (requested_transaction_id, requested_position) on {schema}.retention to {role};
grant select, insert on {schema}.archive to {role};
