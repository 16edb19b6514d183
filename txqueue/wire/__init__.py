"""AMP connections between processes: the only package that uses AMP. Internal."""
