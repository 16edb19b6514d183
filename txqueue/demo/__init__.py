"""The node, the schema and the jobs of ``txqueue demo``; measurements are made with them too."""

FOLDER_VARIABLE = "TXQUEUE_BENCH_FOLDER"
"""The environment variable that names the folder for files to the processes of a node."""
