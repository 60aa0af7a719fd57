-- Also if somebody is connected to it.
drop database if exists {database} with (force)
