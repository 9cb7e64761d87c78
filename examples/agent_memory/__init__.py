"""`make demo`: a memory for agents. Agents write conversations, tool calls and memories; a pipeline on Spark derives tables.

Something to start from: `tables.py` says what is kept, `agent.py` how one agent works, `pipeline.py` what is derived of it. The
rest runs it all at once for a minute, kills agents, and checks that nothing is lost: `world.py`, `watch.py`, `picture.py`.
"""
