select number, remaining from {schema}.erase_letters(%(key)s, %(max_count)s)
