select {schema}.rebase()
