"""Casenotes inside agent frameworks: one file per framework, imported only when asked for."""
