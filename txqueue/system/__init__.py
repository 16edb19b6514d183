"""Access to the operating system: clocks, processes, memory, settings. No reactor; internal."""
