"""The lake's log: one sequence of immutable entries, and the only commit point."""
