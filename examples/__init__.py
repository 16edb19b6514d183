"""Small applications with txqueue; ``python -m examples NAME`` runs one."""
