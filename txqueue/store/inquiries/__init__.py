"""Runs what operators ask and do: an inquiry is a read that any kind of caller can run."""
