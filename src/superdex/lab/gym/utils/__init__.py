"""Public import paths of utilities."""
