"""A shop behind HTTP: FastAPI, SQLAlchemy and Milepost on one database. See README.md."""
