rollback to savepoint milepost
