"""What is known of Spark itself: its settings, its master, its JVM, Connect, and its errors."""
