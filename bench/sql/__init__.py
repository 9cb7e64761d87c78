"""Suite `sql`: statements over a lake's tables beside the same statements in DuckDB on the very same files.

DataFusion, which Lance is built on, answers them too: it is the engine that was not taken.
"""
