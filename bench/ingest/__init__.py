"""Suite `ingest`: many producers of single rows, beside Lance's MemWAL, pylance and LanceDB in the same run.

DuckLake's inlining is left out: its extension is downloaded from a server when it is first used, not installed.
"""
