"""What is remembered: one file, one layer."""
