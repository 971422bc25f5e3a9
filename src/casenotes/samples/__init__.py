"""Sample conversations for `casenotes demo`, written for this project."""
