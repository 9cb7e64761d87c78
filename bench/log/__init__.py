"""Suite `log`: what a commit costs, how it scales, and what the design of the commit loop is worth.

On a local disk with durability "disk" (every acknowledged commit survives a power loss), beside the bare system calls.
With `--lake` on an object store, the sections that depend on the store run there; the others say nothing new.
"""
