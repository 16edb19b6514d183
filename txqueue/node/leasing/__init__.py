"""The node's right to its jobs: acquired, renewed, compared with what the database has assigned."""
