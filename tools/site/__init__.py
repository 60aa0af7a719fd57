"""The documentation as a site: what MkDocs makes of docs/, and what is generated beside it."""
