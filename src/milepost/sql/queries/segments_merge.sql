select {schema}.merge_segments(
  %(processor)s, %(version)s, %(segment)s, %(epoch)s, %(partner)s, %(partner_epoch)s
)
