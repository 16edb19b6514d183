"""The endpoint of a node for operators and joined applications."""
