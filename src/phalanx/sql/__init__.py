"""SQL over all tables of one snapshot, their tails included.

Statements are DuckDB's dialect and only ever read. `statement.py` decides what may run and which tables it names,
`source.py` hands a table's parts to the engine, `engine.py` runs it, `answer.py` is what users hold.
"""

from phalanx.sql.answer import Answer, ask

__all__ = ["Answer", "ask"]
