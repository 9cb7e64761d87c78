"""Suite `tables`: what a commit, a scan, a bulk load and an upsert cost on tables, beside Lance itself and others.

With `--lake` on an object store, Phalanx and the reads of its own datasets run there; systems that would need tables of
their own are left out, and the tables say so.
"""
