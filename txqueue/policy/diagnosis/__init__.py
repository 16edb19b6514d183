"""The conclusions of ``txqueue doctor`` from the facts of an installation, by topic."""
