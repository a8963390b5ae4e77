"""Steps from one form of the tables to the next, run by Alembic when a database is opened."""
