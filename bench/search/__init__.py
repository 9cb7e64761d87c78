"""Suite `search`: the nearest vectors beside Lance itself, and while many rows have changed since they were indexed."""
