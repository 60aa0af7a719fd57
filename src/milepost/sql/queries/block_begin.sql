-- Where each statement would be a transaction of its own.
begin
