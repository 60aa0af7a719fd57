alter table {schema}.jobs add column note text;
