"""Run statements in the transaction of whatever object the caller has: a psycopg connection, a Session
of SQLAlchemy, a connection of asyncpg. Nothing is imported that the caller has not imported."""
