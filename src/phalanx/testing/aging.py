"""A store whose clock can be moved, so that things grow old without waiting."""

from phalanx.objects import Store
from phalanx.testing.wrapping import WrappedStore


class AgingStore(WrappedStore):
    """Its clock is `ahead` seconds ahead of the stamps that it gives: what is there becomes that much older."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.ahead = 0.0

    def now(self) -> float:
        """See `Store`."""
        return self.inner.now() + self.ahead
