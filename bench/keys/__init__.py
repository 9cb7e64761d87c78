"""Suite `keys`: what a row found by its key costs, and what a tail costs those who read it or write it out.

Lance looks up the same keys in the very same files, and in a dataset of its own, which no object store is asked for.
"""
