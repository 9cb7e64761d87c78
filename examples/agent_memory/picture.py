"""Throughput and latency over time, as blocks in a terminal and as a PNG file, without a library for it."""

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

_BLOCKS = " ▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _EDGE = 900, 260, 30
_BLUE, _RED, _GREY = (40, 90, 200), (200, 60, 40), (190, 190, 190)
Image = npt.NDArray[np.uint8]
Marks = Sequence[float]


def blocks(values: Sequence[float], width: int = 60) -> str:
    """Values as a line of blocks, each as high as its value."""
    shown = _squeezed(values, width)
    most = max(shown, default=0.0) or 1.0
    return "".join(_BLOCKS[round(8 * value / most)] for value in shown)


def _squeezed(values: Sequence[float], width: int) -> list[float]:
    """At the most so many values: neighbours are averaged."""
    if len(values) <= width:
        return list(values)
    parts = np.array_split(np.array(values), width)
    return [float(part.mean()) for part in parts]


def write_png(path: Path, rates: Sequence[float], latencies: Sequence[float], kills: Marks, runs: Marks) -> None:
    """Two charts, one above the other: transactions each second, and milliseconds of the slowest of a hundred.

    Red lines are agents that were killed, grey ones runs of the pipeline; both as shares of the time.
    """
    charts = [_chart(values, kills, runs) for values in (rates, latencies)]
    path.write_bytes(_png(np.concatenate(charts)))


def _chart(values: Sequence[float], kills: Marks, runs: Marks) -> Image:
    image = np.full((_HEIGHT, _WIDTH, 3), 255, dtype=np.uint8)
    inner = _WIDTH - 2 * _EDGE
    for colour, marks in ((_GREY, runs), (_RED, kills)):
        for share in marks:
            image[_EDGE : _HEIGHT - _EDGE, _EDGE + min(inner - 1, round(share * inner))] = colour
    image[_HEIGHT - _EDGE, _EDGE : _WIDTH - _EDGE] = 0
    image[_EDGE : _HEIGHT - _EDGE, _EDGE] = 0
    if len(values) > 1:
        across = np.linspace(0, len(values) - 1, inner)
        heights = np.interp(across, np.arange(len(values)), np.array(values)) / (max(values) or 1)
        rows = (_HEIGHT - _EDGE - 1 - heights * (_HEIGHT - 2 * _EDGE - 1)).astype(int)
        for at, (row, before) in enumerate(zip(rows, [rows[0], *rows[:-1]], strict=True)):
            low, high = min(row, before), max(row, before)
            image[low : high + 2, _EDGE + at] = _BLUE
    return image


def _png(image: Image) -> bytes:
    height, width, _ = image.shape
    lines = b"".join(b"\0" + image[row].tobytes() for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(kind, data) for kind, data in parts)


def _part(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
