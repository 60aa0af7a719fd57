"""What the processes and those who kill them agree on."""

EACH, SUMS = "each", "sums"
TOTALS, FIRSTS, FILES = "totals", "firsts", "files"  # which keep state in Spark's directory
FILES_VARIABLE = "MILEPOST_TEST_FILES"  # where the files are
