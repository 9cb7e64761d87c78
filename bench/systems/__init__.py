"""The systems that are measured beside each other, each behind the same few calls.

None of the others syncs anything to disk when it commits; Phalanx does, unless a lake is made with durability "os".
"""
