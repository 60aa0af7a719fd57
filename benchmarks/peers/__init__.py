"""Other queues on PostgreSQL, each run as its own authors run it, in an environment of its own.

The scripts named `drain_*` and `upsert_*` know nothing of Milepost. Each has two commands: `fill
COUNT` makes its schema and puts so many jobs, which do nothing or one upsert each; `drain COUNT`
works them off and prints the seconds. The database is named by the variables of libpq (PGHOST and
so on).
"""
