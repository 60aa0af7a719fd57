listen {queue}
