"""Measure: how well memory finds again what was said, and how well a model learns from it."""
