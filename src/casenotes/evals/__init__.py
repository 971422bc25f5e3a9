"""Measure: how well memory finds again what was said."""
