"""Find the messages that make a batch fail, and set them aside."""
