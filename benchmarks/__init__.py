"""Recipes of the papers' tables, the runner that records them, and the tables they make."""
