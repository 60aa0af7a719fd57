listen {schema}
