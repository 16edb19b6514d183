"""What the database's counts and moments mean."""
