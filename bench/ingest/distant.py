"""A commit of several tables on an object store where every request takes its time: it is one request.

The store is the S3 server of the tests behind a proxy that waits before it passes a request on.
"""

from collections.abc import Callable
from itertools import count

from bench.frame import Bench, timed
from bench.ingest.sinks import SCHEMA, text
from bench.report import Section, Target, median, milliseconds
from phalanx import open as open_lake
from phalanx.objects import open_store
from tests.servers import proxied, start_s3

LATENCY = 0.03
ONE_REQUEST = Target("<=", 1.3)
EXACTLY_ONE = Target("==", 1)
RAW, COMMIT, UPSERT = "one conditional put", "commit of three tables", "upsert of one row"


def measure(bench: Bench) -> Section:
    """The section."""
    note = f"S3 on loopback, {LATENCY * 1e3:g} ms added to every request. A row is upserted in each of three tables."
    with (
        bench.section("distant", "A small commit of several tables on an object store", note) as section,
        start_s3() as server,
        proxied(server) as proxy,
    ):
        options = proxy.server.options
        raw = open_store(proxy.server.uri("raw"), options)
        numbers = count()
        with open_lake(proxy.server.uri("lake"), create=True, storage_options=options) as lake:
            tables = [lake.create_table(name, SCHEMA, key="id") for name in ("a", "b", "c")]

            def put() -> None:
                with raw.prepare([b"x" * 1000]) as blob:
                    blob.put(str(next(numbers)))

            def commit() -> None:
                number = next(numbers)
                with lake.transaction() as txn:
                    for table in ("a", "b", "c"):
                        txn[table].upsert([{"id": number % 100, "text": text(number)}])

            work: dict[str, Callable[[], object]] = {
                RAW: put,
                COMMIT: commit,
                UPSERT: lambda: tables[0].upsert([{"id": next(numbers) % 100, "text": "x"}]),
            }
            proxy.latency = LATENCY
            for one in work.values():
                one()
            requests = len(proxy.seen())
            commit()
            section.count(f"requests of a {COMMIT}", len(proxy.seen()) - requests, EXACTLY_ONE)
            contestants = {name: timed(section.series(name), one) for name, one in work.items()}
            bench.in_turns("in turns", bench.pick(50, 3), contestants)
            proxy.latency = 0.0
        for name in work:
            section.row(name, milliseconds(section.samples[name]))
        times = {name: median(section.samples[name]) for name in work}
        section.ratio(f"{COMMIT} / {RAW}, medians", times[COMMIT] / times[RAW], ONE_REQUEST)
        section.ratio(f"{UPSERT} / {RAW}, medians", times[UPSERT] / times[RAW])
    return section
