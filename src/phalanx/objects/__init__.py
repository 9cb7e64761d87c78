"""Named bytes on a disk, in an object store or in memory, behind one small port."""

from phalanx.objects.address import open_store
from phalanx.objects.store import Blob, Created, Exists, Files, Listed, Put, Store, Sum, Unknown

__all__ = ["Blob", "Created", "Exists", "Files", "Listed", "Put", "Store", "Sum", "Unknown", "open_store"]
