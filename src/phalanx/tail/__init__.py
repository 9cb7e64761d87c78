"""The tail: items applied to a head, exactly, as one immutable value that readers and flush share."""
