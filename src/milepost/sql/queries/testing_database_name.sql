select current_database()
