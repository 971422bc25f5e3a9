"""The command line: one file a group of commands, each a thin door to the verbs of Memory."""
