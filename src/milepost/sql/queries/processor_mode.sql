select mode from {schema}.processors where name = %(processor)s and version = %(version)s
