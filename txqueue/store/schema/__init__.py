"""The SQL files, the migrations, and which queue and version a database has."""
