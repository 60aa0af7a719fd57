select {schema}.merge_jobs(%(staging)s, %(default_channel)s, %(attempts)s)
