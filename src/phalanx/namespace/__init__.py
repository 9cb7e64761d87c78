"""The door for stock Lance clients: a `LanceNamespace` over a lake, in process.

lance.dataset(namespace_client=PhalanxNamespace(lake), table_id=["turns"])
lancedb.connect_namespace("phalanx.namespace.PhalanxNamespace", {"uri": "./lake"})
"""

from phalanx.namespace.service import PhalanxNamespace

__all__ = ["PhalanxNamespace"]
