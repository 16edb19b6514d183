"""The scenarios, in files by family; all files of this folder are loaded."""
