select {schema}.merge_messages(%(staging)s, %(default_topic)s, %(attempts)s)
