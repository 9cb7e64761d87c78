"""Longer proof, run by `make torture`."""
