"""Suite `mixed`: forty processes change one table at once, beside pylance, delta-rs and LanceDB in the same run.

And what it costs those who read. With `--lake` on an object store, Phalanx runs there, and the others are left out:
they are made for folders here, and the table says so.
"""
