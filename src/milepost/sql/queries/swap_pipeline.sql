select {schema}.swap_pipeline(
  %(pipeline)s, %(from_version)s, %(to_version)s, %(must_have_caught_up)s
)
