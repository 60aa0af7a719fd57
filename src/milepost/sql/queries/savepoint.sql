-- One of the same name hides those before it, so that blocks may be nested.
savepoint milepost
