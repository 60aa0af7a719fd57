"""What a pipeline would do, found out without writing: the output of some messages, and the plan of
its next run."""

from milepost.pipeline.preview.next_run import Plan, plan
from milepost.pipeline.preview.output import Place, Preview, preview

__all__ = ["Place", "Plan", "Preview", "plan", "preview"]
