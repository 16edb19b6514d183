"""The facts that `txqueue doctor` reads."""
