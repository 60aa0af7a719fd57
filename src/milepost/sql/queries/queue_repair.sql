select {schema}.repair_queue()
