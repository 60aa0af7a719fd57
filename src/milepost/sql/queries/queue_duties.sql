select {schema}.queue_duties()
