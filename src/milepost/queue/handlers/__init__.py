"""What a worker calls: a handler, what it is given, what is put around it, and what it answers."""
