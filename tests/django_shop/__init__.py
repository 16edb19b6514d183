"""A project of Django whose tasks txqueue runs; also an app of its own."""
