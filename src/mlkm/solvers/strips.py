"""A kernel matrix that is stored: strips of rows, each from its own diagonal on, 2 n^2 bytes in float32."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .._types import Array


@dataclass(frozen=True)
class Strips:
    """K with the ridge on its diagonal: its upper triangle by strips of rows, each from its own diagonal on."""

    strips: list[Array]

    @classmethod
    def of(cls, strips: Iterable[tuple[slice, Array]], ridge: Array) -> "Strips":
        """A kernel's strips, which are kept, with the ridge added."""
        kept = []
        for at, strip in strips:
            strip[np.diag_indices(len(strip))] += ridge[at].astype(strip.dtype)
            kept.append(strip)
        return cls(kept)

    def product(self, V: Array) -> Array:
        """K V: every strip is read once, for what stands right of the diagonal and for its mirror image below."""
        own, begin = V.astype(np.float32), 0
        total = np.zeros_like(own)
        for strip in self.strips:
            end = begin + len(strip)
            total[begin:end] += strip @ own[begin:]
            total[end:] += strip[:, len(strip) :].T @ own[begin:end]
            begin = end
        return total.astype(np.float64)

    def first_rows(self, most: int) -> Array:
        """The first rows of K, whole."""
        n = self.strips[0].shape[1]
        rows: Array = np.zeros((min(most, n), n), self.strips[0].dtype)
        begin = 0
        for strip in self.strips:
            end = min(begin + len(strip), len(rows))
            rows[begin:end, begin:] = strip[: end - begin]
            rows[end:, begin:end] = strip[: end - begin, end - begin : len(rows) - begin].T
            begin = end
            if end == len(rows):
                return rows
        return rows
