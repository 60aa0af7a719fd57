"""Settings of a Spark that lives for the seconds of a test: to optimise its code would cost more
than it saves in that time."""

from __future__ import annotations

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
BRIEF = {"spark.driver.extraJavaOptions": JAVA_OPTIONS, "spark.ui.enabled": "false"}
# As MILEPOST_SPARK_CONF has them.
BRIEF_VARIABLE = ";".join(f"{name}={value}" for name, value in BRIEF.items())
