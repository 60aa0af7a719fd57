select archives, may_archive, removes, may_remove from {schema}.retention_duties()
