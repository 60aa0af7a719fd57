select {schema}.refuse_unindexed('messages_key', 'reading by key', '--with-key-index')
