"""What the project is built with, beside its own code and tests."""
