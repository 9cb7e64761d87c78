"""The models of specs/, run."""
