"""The write path: what a finished turn teaches, decided by code before anything is stored."""
