"""Upkeep: maintenance that changes no row and makes no writer wait (I7)."""
