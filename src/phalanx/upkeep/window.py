"""What prune goes by if nobody says: the window in which nothing that was replaced goes, and how writes prune.

prune.protect   the window; the environment may say otherwise, and each call
prune.mode      "eager" or "background": how `prune_previous=True` prunes
"""

from collections.abc import Mapping
from typing import Literal

from phalanx.amounts import seconds
from phalanx.errors import InvalidInputError

PROPERTY = "prune.protect"
MODE = "prune.mode"
VARIABLE = "PHALANX_PRUNE_PROTECT"
DEFAULT = 600.0

Previous = bool | Literal["eager", "background"]
"""Whether and how a write prunes what came before it."""


def protection(given: float | str | None, environment: Mapping[str, str], properties: Mapping[str, str]) -> float:
    """The window that holds: what was asked for, else what the environment says, else the lake. 0 is no check of time."""
    if given is not None:
        return seconds(given, "protect")
    if environment.get(VARIABLE):
        return seconds(environment[VARIABLE], VARIABLE)
    return seconds(properties.get(PROPERTY, DEFAULT), PROPERTY)


def previous_mode(
    given: Previous, environment: Mapping[str, str], properties: Mapping[str, str]
) -> Literal["eager", "background"] | None:
    """How a write prunes what came before it; None if it does not. What makes no sense is refused before anything is written."""
    if given is False:
        return None
    wanted = properties.get(MODE, "eager") if given is True else given
    if wanted not in {"eager", "background"}:
        raise InvalidInputError(f'prune_previous is True, False, "eager" or "background": {wanted!r} is not')
    protection(None, environment, properties)
    return "eager" if wanted == "eager" else "background"
