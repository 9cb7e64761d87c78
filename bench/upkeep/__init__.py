"""Suite `upkeep`: what maintenance costs, beside Lance's own, and what writers notice of it."""
