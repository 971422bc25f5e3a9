"""Who thinks: embedders that turn text into vectors, and chat models that answer."""
