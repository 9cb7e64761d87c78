"""What is derived of it, by a pipeline on Spark: each run reads what is new, and publishes three tables in one commit.

`phalanx pipeline run examples/agent_memory/pipeline.py --lake LAKE`
"""

from phalanx.spark import Pipeline, added, expect, whole

memory = Pipeline("memory")

memory.sql(
    "activity",
    """
    select agent, sum(turns) as turns, max(last) as last from (
        select agent, turns, last from so_far union all
        select agent, count(*) as turns, max(step) as last from new group by agent
    ) group by agent
    """,
    reads={"new": added("turns"), "so_far": whole("activity")},
    writes="activity",
    mode="upsert",
    expect=[expect.unique("agent"), expect.holds("turns = last")],
)

memory.sql(
    "tools",
    """
    select tool, sum(calls) as calls, sum(failed) as failed from (
        select tool, calls, failed from so_far union all
        select tool, 1 as calls, if(ok, 0, 1) as failed from new
    ) group by tool
    """,
    reads={"new": added("tool_calls"), "so_far": whole("tools")},
    writes="tools",
    mode="upsert",
    expect=[expect.not_null("tool"), expect.holds("failed <= calls")],
)

memory.sql(
    "words",
    "select agent, step, word from (select agent, step, explode(split(text, ' ')) as word from new) where length(word) > 4",
    reads={"new": added("turns")},
    writes="words",
)
