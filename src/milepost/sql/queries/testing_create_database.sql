-- {database} and {template} are filled in by milepost.testing. In memory, copying files takes half
-- the time of writing all pages to the WAL.
create database {database} template {template} encoding 'UTF8' strategy file_copy
