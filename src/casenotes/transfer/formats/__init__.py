"""How others write conversations down: one file a format, and what they have in common."""
