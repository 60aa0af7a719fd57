"""A worker: takes jobs, runs handlers, settles their outcomes."""
