"""Products with a kernel matrix on a cluster: pairs of blocks of rows are its tasks.

The codes of all rows are sent to every worker once, and V with every product; what a task gives back is as long as V.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._types import Array
from ..data.dask import DaskSource, client_in_use, compute, tree_of
from ..data.source import Source
from ..runtime.sizes import PRODUCT_TASKS
from ..runtime.threads import limited
from ..solve.dual_matrix import Pairs, pairs_elsewhere, some_pairs


def pairs_on(source: Source | None) -> AbstractContextManager[None]:
    """Products with kernel matrices are computed where the rows of the source are."""
    return pairs_elsewhere(ClusterPairs()) if isinstance(source, DaskSource) else nullcontext()


@dataclass(frozen=True)
class ClusterPairs:
    """The codes of matrices that were sent, by the matrix that they are of."""

    sent: dict[int, tuple[Pairs, Any]] = field(default_factory=dict)

    def apart(self, pairs: Pairs, V: Array) -> Array:
        """K V without ridge and without the terms that are products of codes."""
        from dask import delayed

        if id(pairs) not in self.sent:
            self.sent.clear()
            self.sent[id(pairs)] = pairs, _everywhere([pairs.blocks.block(i) for i in range(pairs.blocks.n_blocks)])
        codes, own = self.sent[id(pairs)][1], _everywhere(V)
        work = delayed(_task, pure=False)
        tasks = [work(pairs.kernel, codes, pairs.begins, own, some) for some in pairs.tasks(PRODUCT_TASKS)]
        return np.asarray(compute(tree_of(tasks, np.add)), np.float64)


def _task(kernel: Any, codes: Any, begins: Any, V: Array, own: Any) -> Array:
    with limited(1):
        return some_pairs(kernel, codes, begins, V, own)


def _everywhere(values: Any) -> Any:
    """Something that all tasks need: sent to every worker, or one node of the graph where there is no cluster."""
    from dask import delayed

    with client_in_use() as client:
        if client is None:
            return delayed(values, pure=False, traverse=False)
        return client.scatter([values], broadcast=True, hash=False)[0]
