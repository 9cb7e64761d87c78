"""Measurements that can be repeated: `python -m bench [suite ...]`.

A suite is a function that takes a `Bench` and yields sections; each section is a table of figures with comparisons, some
of which have a target. The machine may be noisy, so whatever is compared is measured in turns in one run, medians are
compared, and ratios are what counts.
"""
