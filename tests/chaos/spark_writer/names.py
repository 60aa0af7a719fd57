"""What the job and those who kill it agree on."""

TOPIC = "numbers"
FILES = "files"
