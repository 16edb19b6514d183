"""The five systems of docs/explanation/systems.md as five short examples, a module for each.

Each module has the tables of its application, its work, and a tour that uses it.
"""
