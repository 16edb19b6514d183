"""The scenarios: a file a family; each file here is found by itself."""
