select {schema}.record_audit(%(who)s, %(action)s, %(subject)s, %(arguments)s)
