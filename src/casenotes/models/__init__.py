"""Who thinks: the embedders that turn text into vectors."""
