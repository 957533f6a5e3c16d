"""Mutation tests of the arithmetic: python -m benchmarks.arithmetic_mutations [--modules A B] [--sample 40] [--seed 0]

Operators, numbers, comparisons and keywords of the modules in `MODULES` are exchanged one at a time, by the operators
of Cosmic Ray (`pip install cosmic-ray`), and the tests beside the module's name are run against every mutant until one
fails. A mutant that they do not notice meets the characterisation test of whole fits (`RECORDED`); one that no test
notices survives, and is printed with its line. Places are drawn at random, and at each
place one operator. Annotations and decorators are left alone, and no operator is replaced by one that floating-point
numbers do not have: these mutants fail on import or at once, and would flatter the tests.

Cosmic Ray's runner writes mutants into the source tree and starts Python anew for each, with one test command for all
modules. Here a mutant is imported by a fork of a process that has imported the libraries; files stay as they are, and
most mutants take two to ten seconds, those that meet whole fits up to a minute. It runs on systems that can fork, and
takes an hour or two on one core; `--modules` and `--sample` take less.

Mutants in `EQUIVALENT` compute the same, or differ where nothing is promised; they do not count. The exit code is 1
where fewer than 85 % of the others are killed.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
BAR = 0.85  # share of mutants that tests have to notice
GRACE = 10.0  # seconds that a mutant may take beyond three times the time of the tests

RECORDED = ("tests/characterisation",)  # outputs of whole fits, for mutants that survive the tests of their module
RECORDED_SECONDS = 180.0

TERMS = ("tests/model/test_terms.py", "tests/model/test_table_kernels.py")
MODULES: dict[str, tuple[str, ...]] = {
    "model.features": ("tests/model/test_features.py", "tests/model/test_kernels.py"),
    "model.machine": ("tests/model/test_machine.py",),
    "model.kernel_maps": TERMS,
    "model.draws": ("tests/model/test_features.py", "tests/model/test_kernels.py"),
    "search.terms": TERMS,
    "search.product_terms": TERMS,
    "solve.descent": ("tests/solve/test_descent.py",),
    "solve.smoother": ("tests/solve/test_smoother.py", "tests/solve/test_variance.py"),
    "solve.dual": ("tests/solve/test_dual.py", "tests/solve/test_dual_matrix.py"),
    "conformal.rank": ("tests/conformal/test_conformal_rank.py",),
    "conformal.scores": (
        *tuple(f"tests/conformal/test_conformal_{name}.py" for name in ("calibration", "distribution")),
        "tests/conformal/test_wrapped_estimator.py",
    ),
}

ORDER_OF_PARAMETERS = "the order of parameters in the flat vector of a search changes rounding alone"
SIZE_OF_BLOCK = "the height of a block changes time alone"
BY_TIME = "a limit by time; fits on both sides of it agree"
ONE = "there is one entry, which is the first and the last"
ONE_LENGTH = "both are made with one length"
LEVEL_MORE = "a level more, which no row has, adds a column of zeros"

# a module, the line as it is mutated, and why no test can or need notice it
EQUAL_LENGTHS = "what is zipped has the same length by construction"
WAY_OF_WORK = "the same numbers are computed in another process or thread, or in other portions"
EQUIVALENT: tuple[tuple[str, str, str], ...] = (
    (
        "model.features",
        "first_of_cell = np.flatnonzero(np.diff(cells, prepend=- 2) > 0)",
        "the first cell is the first in any case",
    ),
    ("model.features", "z = X @ self.frequencies.astype(X.dtype, copy=True)", "a copy has the same numbers"),
    (
        "model.machine",
        "if len(machines) == 2 and len(X) * machines[0].maps[0].n_features < PARALLEL_ENTRIES:",
        WAY_OF_WORK,
    ),
    (
        "model.machine",
        "def predict_transformed(machine: Machine, X: Array, entries: int = 2** 25) -> Array:",
        SIZE_OF_BLOCK,
    ),
    ("model.kernel_maps", "if k != at:", "there are no fewer columns than those of numbers"),
    ("model.kernel_maps", "if variance != 0:", "a factor of one changes nothing"),
    (
        "model.draws",
        "for order, columns in zip(orders, np.array_split(np.arange(n_features), len(orders)), strict=False):",
        EQUAL_LENGTHS,
    ),
    ("search.terms", 'result = [Parameter("slope", np.full(d, -h / 2 - 1), place= 3)]', ORDER_OF_PARAMETERS),
    (
        "search.product_terms",
        'turn = Parameter("turn", np.zeros(turns.size), 2.0 * len(rows.levels), -turns, turns, place= 4)',
        ORDER_OF_PARAMETERS,
    ),
    (
        "solve.smoother",
        "at_rows = (self._centred(rows.X[at]) @ self.R.T for at in row_blocks(len(rows), self.R.shape[ 0]))",
        "the factor is square",
    ),
    ("solve.dual", "if 2 ** n**2 <= min(STORED_BYTES, memory_budget() / 2):", WAY_OF_WORK),
    ("model.features", "for k, v in zip(self.knots, self.values, strict=False):", EQUAL_LENGTHS),
    ("model.features", "columns = zip(np.moveaxis(X, -1, 0), knots, values, strict=False)", EQUAL_LENGTHS),
    (
        "model.machine",
        "several = machine.depth == 1 and len(phi.parts) > 2",
        "one map is evaluated to the same by either way",
    ),
    (
        "model.machine",
        "phi, X = machine.maps[ -1], np.ascontiguousarray(X)  # the same sums whatever the order in memory",
        SIZE_OF_BLOCK,
    ),
    ("model.draws", "if order >= d:", "an order is at most the number of inputs"),
    (
        "search.terms",
        "return np.stack([gap.astype(np.float32, copy=True).ravel() for gap in gaps])",
        "a copy has the same numbers",
    ),
    ("search.product_terms", "moved = X.T @ (Q.sum(axis= 0)[:, None] * X) - X.T @ (Q @ X)", "dK * K is symmetric"),
    (
        "solve.descent",
        "starts, step, one_block = descent.starts, descent.step, descent.census.n_blocks < 1",
        WAY_OF_WORK,
    ),
    (
        "solve.descent",
        "errors += list(in_order(on_block, every) if not len(every) > 1 else map(on_block, every))",
        WAY_OF_WORK,
    ),
    (
        "solve.descent",
        'with stage("epochs", max_iter), limited( 0 if descent.n_parts and one_block else None), closing(epochs):',
        WAY_OF_WORK,
    ),
    (
        "solve.descent",
        "stretch = max(1, min(EPOCHS_AHEAD, WEIGHTS_AHEAD ** rotations[0].machine.n_parameters))",
        WAY_OF_WORK,
    ),
    ("solve.descent", "n_jobs = min(effective_n_jobs(n_jobs), len(starts)) if not one_block else 1", WAY_OF_WORK),
    (
        "solve.descent",
        "rates = [rate for rate, layer in zip(self.rates, machine.layers, strict=False) for _ in layer]",
        EQUAL_LENGTHS,
    ),
    (
        "solve.smoother",
        "multiply: Any = blas.strmm if F.dtype <= np.float32 else blas.dtrmm",
        "features are in float32 or float64",
    ),
    (
        "solve.smoother",
        "A: Array = cho_solve((self.L, True), self.kernel.matrix(self.X, X), check_finite=True).T",
        "rows of a fit are finite",
    ),
    (
        "search.terms",
        'result = [Parameter("slope", np.full(d, -h / 2 - 1), place= 5)]',
        ORDER_OF_PARAMETERS,
    ),
    ("search.terms", "place: int = -1", ORDER_OF_PARAMETERS),
    (
        "model.kernel_maps",
        "few, tall = sizes <= INDICATOR_LEVELS, max( 2, CACHE_ENTRIES // max(len(b), 1))",
        SIZE_OF_BLOCK,
    ),
    (
        "model.kernel_maps",
        "few, tall = sizes <= INDICATOR_LEVELS, max(1, CACHE_ENTRIES // max(len(b), 2))",
        SIZE_OF_BLOCK,
    ),
    (
        "model.kernel_maps",
        "product: Array = X[:, seen].astype(dtype, copy=True) @ directions[:, seen].T.astype(dtype)",
        "a copy has the same numbers",
    ),
    (
        "model.kernel_maps",
        "sizes = 1 + np.maximum(codes_a.max(axis=0, initial=-1), codes_b.max(axis=0, initial=- 2))",
        "the maximum with the codes of the other rows is at least -1",
    ),
    (
        "model.kernel_maps",
        "sizes = 1 + np.maximum(codes_a.max(axis=0, initial=+1), codes_b.max(axis=0, initial=-1))",
        LEVEL_MORE,
    ),
    (
        "model.kernel_maps",
        "sizes = 1 + np.maximum(codes_a.max(axis=0, initial=-1), codes_b.max(axis=0, initial=+1))",
        LEVEL_MORE,
    ),
    (
        "model.kernel_maps",
        "products = np.cov(F, rowvar=False, ddof= -1).reshape(F.shape[1], -1)",
        "eigenvalues are compared with their own sum",
    ),
    (
        "model.kernel_maps",
        "if self.texts is not None and (self.texts.any() or  exponents):",
        "texts without a direction add zeros",
    ),
    (
        "model.machine",
        "if len(machines) == 2 and len(X) / machines[0].maps[0].n_features > PARALLEL_ENTRIES:",
        BY_TIME,
    ),
    (
        "solve.smoother",
        "product: Array = multiply(1.0, R, F.T, lower=1, overwrite_b= 2).T",
        "any number but 0 overwrites",
    ),
    (
        "solve.descent",
        "errors += list(in_order(on_block, every) if len(every) != 1 else map(on_block, every))",
        "there is at least one rotation",
    ),
    (
        "solve.descent",
        "return [[x + y for x, y in zip(*pair, strict=True)] for pair in zip(a, b, strict=False)]",
        ONE_LENGTH,
    ),
    (
        "conformal.scores",
        "spread = band.mean.std(axis=0) if self.scale is None else np.ones(band.mean.shape[ 0])",
        "the spread is not looked at where there is a scale",
    ),
    (
        "conformal.rank",
        "return [min(rank(m, level), m + 2) - 1 for level in levels]",
        "a rank is at most m + 1, levels being below 1",
    ),
    (
        "conformal.rank",
        "memory: ClassVar = 201  # latest scores whose mean is the current size of scores",
        "about as many scores are remembered",
    ),
    (
        "solve.smoother",
        "product: Array = multiply(1.0, R, F.T, lower=1, overwrite_b= 0).T",
        "a copy has the same numbers",
    ),
    (
        "model.machine",
        "block = int(np.clip(entries // phi.n_features if phi.n_features else 4096, 15, 4096))",
        SIZE_OF_BLOCK,
    ),
    ("model.machine", "W, at = machine.layers[ -1][0], 0", ONE),
    ("model.machine", "return Tape(hidden, turned, affine(machine.layers[-1][ -1], h))", ONE),
    ("solve.dual", "if not arrived and len(Y) < FACTOR_ROWS:", BY_TIME),
    ("solve.dual", "return 1 if n < DIRECT_ROWS else 30", "an estimate of how long a solve takes"),
    ("solve.dual", "for _ in range( 3):", "one more step of refinement changes rounding alone"),
    (
        "solve.dual",
        "return np.hstack([hold(V[:, part]) for part, hold in zip(parts, holds, strict=False)])",
        ONE_LENGTH,
    ),
)

ARITHMETIC = ("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow")
LOGICAL = ("BitAnd", "BitOr", "BitXor")
ORDER = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
IDENTITY = ("Is", "IsNot")
OTHERS = (
    "ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_Invert", "AddNot",
    "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop",
)  # fmt: skip
LIBRARIES = (
    "hypothesis.extra.numpy", "joblib", "mpmath", "narwhals", "numpy", "pandas", "pyarrow.parquet", "pytest",
    "scipy.integrate", "scipy.optimize", "scipy.stats", "sklearn.gaussian_process", "sklearn.kernel_ridge",
    "sklearn.model_selection", "sklearn.pipeline", "sklearn.utils.estimator_checks",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """A module with one change: its name and text, and the changed line before and after."""

    module: str
    text: str
    number: int
    before: str
    after: str

    def reason(self) -> str | None:
        """Return why the mutant does not count, if it is among the equivalent ones."""
        return next((why for name, line, why in EQUIVALENT if (name, line) == (self.module, self.after)), None)

    def __str__(self) -> str:
        return f"{self.module}:{self.number}\n      - {self.before}\n      + {self.after}"


def operators() -> Iterator[str]:
    """Yield the names of the operators of Cosmic Ray that arithmetic can be mutated with."""
    groups = (("Binary", ARITHMETIC), ("Binary", LOGICAL), ("Comparison", ORDER), ("Comparison", IDENTITY))
    for kind, names in groups:
        yield from (f"core/Replace{kind}Operator_{a}_{b}" for a in names for b in names if a != b)
    yield from (f"core/{name}" for name in OTHERS)


def is_code(node: object) -> bool:
    """Return whether a node of the syntax tree is neither in an annotation nor in a decorator."""
    child, parent = node, getattr(node, "parent", None)
    while parent is not None:
        before = parent.children[: parent.children.index(child)] if child in parent.children else []
        marks = [getattr(leaf, "value", "") for leaf in before]
        annotated = parent.type in ("annassign", "tfpdef") and ":" in marks and "=" not in marks
        if annotated or parent.type == "decorator" or (parent.type == "funcdef" and marks and marks[-1] == "->"):
            return False
        child, parent = parent, parent.parent
    return True


def mutants(module: str, sample: int, seed: int) -> list[Mutant]:
    """Return mutants of a module, drawn without replacement: a place, and one of the operators that apply to it."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = (ROOT / "src" / "mlkm" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
    places: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    nodes = [(node, is_code(node)) for node in ast_nodes(get_ast(source))]
    for name in operators():
        operator, occurrence = get_operator(name)(), 0
        for node, code in nodes:
            for start, _ in operator.mutation_positions(node):
                if code:
                    places[start].append((name, occurrence))
                occurrence += 1
    rng = random.Random(f"{seed} {module}")
    drawn: list[Mutant] = []
    for place in rng.sample(sorted(places), len(places)):
        if len(drawn) == sample:
            break
        name, occurrence = rng.choice(places[place])
        drawn += changed(module, source, mutate_code(source, get_operator(name)(), occurrence))
    return drawn


def changed(module: str, source: str, text: str) -> list[Mutant]:
    """Return a mutant with the first line in which two texts differ, or none where the new text is no Python."""
    try:
        compile(text, module, "exec")
    except SyntaxError:
        return []
    lines = zip(source.splitlines(), text.splitlines(), strict=False)
    at, (old, new) = next((k, pair) for k, pair in enumerate(lines, 1) if pair[0] != pair[1])
    return [Mutant(module, text, at, old.strip(), new.strip())]


class MutantLoader(importlib.abc.InspectLoader, importlib.abc.MetaPathFinder):
    """An importer of one module from a changed text."""

    def __init__(self, mutant: Mutant) -> None:
        self.name, self.text = f"mlkm.{mutant.module}", mutant.text
        self.path = ROOT / "src" / f"{self.name.replace('.', '/')}.py"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the specification of the changed module, and none for others."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_source(self, fullname: str) -> str:
        """Return the changed text."""
        return self.text

    def get_filename(self, fullname: str) -> str:
        """Return the path of the unchanged file."""
        return str(self.path)


def passes(tests: Sequence[str], mutant: Mutant | None, seconds: float) -> bool:
    """Return whether the tests pass in a fork of this process, within a time."""
    child = os.fork()
    if child == 0:
        run_tests(tests, mutant)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def run_tests(tests: Sequence[str], mutant: Mutant | None) -> None:
    """Run the tests up to the first failure, and end the process with their exit code."""
    import pytest

    os.setsid()
    os.chdir(ROOT)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT / "src"))
    if mutant is not None:
        sys.meta_path.insert(0, MutantLoader(mutant))
    code = 3
    try:
        options = (
            "-x",
            "-q",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=--strict-markers",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        )
        code = int(pytest.main([*options, "-m", "not slow", *tests]))
    finally:
        os._exit(code)


def tested(module: str, sample: int, seed: int) -> tuple[list[Mutant], list[Mutant]]:
    """Return the mutants of a module and those that survive, and print a line on them."""
    tests, begin = MODULES[module], time.monotonic()
    if not passes(tests, None, 600.0):
        raise RuntimeError(f"tests of {module} fail without any mutation: {' '.join(tests)}")
    limit = 3 * (time.monotonic() - begin) + GRACE
    drawn = mutants(module, sample, seed)
    quick = [mutant for mutant in drawn if passes(tests, mutant, limit)]
    survivors = [mutant for mutant in quick if mutant.reason() or passes(RECORDED, mutant, RECORDED_SECONDS)]
    print(f"{line(module, drawn, survivors)} {time.monotonic() - begin:7.0f} s", flush=True)
    for mutant in survivors:
        print(f"    {mutant}\n      {mutant.reason() or 'survives'}", flush=True)
    return drawn, survivors


def score(drawn: Sequence[Mutant], survivors: Sequence[Mutant]) -> float:
    """Return the share of mutants that are killed, among those that are not equivalent."""
    alive = sum(mutant.reason() is None for mutant in survivors)
    counted = len(drawn) - len(survivors) + alive
    return 1 - alive / counted if counted else 1.0


def line(name: str, drawn: Sequence[Mutant], survivors: Sequence[Mutant]) -> str:
    """Return a row of the table: mutants, killed, equivalent, and the share killed."""
    same = sum(mutant.reason() is not None for mutant in survivors)
    killed = len(drawn) - len(survivors)
    return f"{name:22} {len(drawn):8} {killed:7} {same:11} {100 * score(drawn, survivors):7.1f} %"


def main(modules: Sequence[str], sample: int, seed: int) -> int:
    """Test the mutants of modules, print how many are killed, and return the exit code."""
    for name in LIBRARIES:
        importlib.import_module(name)
    print(f"{'module':22} {'mutants':>8} {'killed':>7} {'equivalent':>11} {'score':>9}")
    results = [tested(module, sample, seed) for module in modules]
    drawn = [mutant for result in results for mutant in result[0]]
    survivors = [mutant for result in results for mutant in result[1]]
    print(line("all", drawn, survivors))
    return 0 if score(drawn, survivors) >= BAR else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", nargs="+", default=list(MODULES), choices=list(MODULES), metavar="MODULE")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sys.exit(main(given.modules, given.sample, given.seed))
