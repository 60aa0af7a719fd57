"""Any DataFrame as messages: what `format("milepost")` writes with."""

from milepost.pipeline.sink.options import parse as parse_sink_options
from milepost.pipeline.sink.options import refuse_overwrite
from milepost.pipeline.sink.writers import BatchWriter, StreamWriter

__all__ = ["BatchWriter", "StreamWriter", "parse_sink_options", "refuse_overwrite"]
