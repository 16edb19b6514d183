"""The scenarios, in modules by kind of fault; all modules of this folder are loaded."""
