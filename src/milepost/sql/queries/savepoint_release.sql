release savepoint milepost
