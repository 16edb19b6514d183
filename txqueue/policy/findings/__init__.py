"""The catalogue of findings: what can be wrong, with the facts, the consequence and the remedy."""
