"""A year of flights from New York: 336,776 real ones, as messages, through Spark, against pandas.

    pip install -e '.[embedded,spark,examples]'
    python -m examples.flights                 # everything; a second run appends nothing
    python -m examples.flights --flights 20000 # only the first so many

See `app.py` for the pipelines.
"""
