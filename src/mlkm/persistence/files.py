"""Models as files: those of skops (https://skops.readthedocs.io), a zip archive of arrays and a description in JSON,
with a note of the version that wrote it.

No code of a file runs: it can name types that are trusted (`mlkm.persistence.trusted`), and give them numbers.
"""

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile

from sklearn.base import BaseEstimator

from .._checks import brief, file_path, yes_no
from .._version import __version__
from ..conformal.regressor import ConformalRegressor
from ..exceptions import warn
from .prepared import NeedsRowsError, prepared
from .trusted import TRUSTED

SCHEMA = 1  # goes up where a file can no longer be read by an older version
_NOTE = "mlkm.json"  # beside what skops writes

PathLike = str | os.PathLike[str]


def save(model: Any, path: PathLike, *, keep_rows: bool = True) -> None:
    """Write a model, fitted or not, to a file that `mlkm.load` reads; predictions are the same to the last bit.

    The file is complete or not there: it is written under another name and then renamed, so that a save that is
    interrupted leaves the file that was there before.

    Parameters
    ----------
    model : estimator
        Any estimator of this package, and scikit-learn's around them: pipelines, searches, bands.
    path : str or path
    keep_rows : bool, default=True
        Whether the training rows are written. Without them the file is smaller, and `predict` works as before. So do
        `predict(X, return_std=True)` and bands of the default, of fits from sums, and of up to 500 features on twice
        as many rows; for others there is a warning, and a band that would have no intervals is refused. What looks at
        single rows, as `leave_one_out`, `effects` and `explain`, does not. It is no way to hide rows: kernels stay
        centred on their inputs.

    Examples
    --------
    >>> import mlkm, os, tempfile
    >>> from mlkm.datasets import make_example1
    >>> X, y, f = make_example1(n=200, d=4, random_state=0)
    >>> model = mlkm.MLKMRegressor(random_state=0).fit(X, y)
    >>> path = os.path.join(tempfile.mkdtemp(), "model.mlkm")
    >>> mlkm.save(model, path)
    >>> bool((mlkm.load(path).predict(X) == model.predict(X)).all())
    True
    """
    if not isinstance(model, BaseEstimator):
        raise TypeError(f"mlkm.save writes estimators, as in save(model, path); got {type(model).__name__}.")
    skops, target = _skops(), _target(file_path("path", path))
    yes_no("keep_rows", keep_rows)
    try:
        copy, without_std = prepared(model, keep_rows)
        content = skops.dumps(copy, compression=ZIP_DEFLATED)
    except NeedsRowsError:
        raise
    except Exception as error:
        raise ValueError(f"{type(model).__name__} holds what cannot be written to a file: {_words(error)}.") from error
    with _replacing(target) as file:
        file.write(content)
        with ZipFile(file, "a", ZIP_DEFLATED) as archive:
            archive.writestr(_NOTE, json.dumps({"schema": SCHEMA, "mlkm": __version__}))
    if without_std and not isinstance(model, ConformalRegressor):  # a band that needs them was refused
        warn(
            f"The standard deviations of {' and '.join(sorted(without_std))} need the training rows, and without them"
            " predict(X, return_std=True) will not work in the loaded model; keep_rows=True keeps them."
        )


def load(path: PathLike, *, trusted: Sequence[str] = ()) -> Any:
    """Read a model that `mlkm.save` wrote. No code of the file runs.

    Parameters
    ----------
    path : str or path
    trusted : sequence of str, default=()
        Names of further types that the file may hold, such as "sklearn.tree._tree.Tree" for a band around a forest.
        A file may call what is trusted with whatever it holds: take care whose files, and which names.
    """
    if isinstance(trusted, str):
        raise TypeError(f"trusted must be a sequence of names, as in [{brief(trusted)}]; got a single one.")
    if not isinstance(trusted, (list, tuple)) or not all(isinstance(name, str) for name in trusted):
        raise TypeError(f"trusted must be a sequence of names of types; got {brief(trusted)}.")
    skops, path = _skops(), file_path("path", path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    with open(path, "rb") as file:
        _check_note(file, path)
        model = _model(skops, file, path, [*TRUSTED, *trusted])
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"{os.fspath(path)!r} holds no model, but an object of type {type(model).__name__}.")
    return model


def _skops() -> Any:
    try:
        import skops.io
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError('Model files need the package skops: pip install "mlkm[save]".') from error
    return skops.io


def _words(error: Exception) -> str:
    """What an error of others says, as part of a sentence."""
    return f"{type(error).__name__}, {' '.join(str(error).split()).rstrip('.')}"


def _check_note(file: IO[bytes], path: PathLike) -> None:
    """Refuse what is no model, or one of a later schema, before anything else of it is read."""
    name = repr(os.fspath(path))
    try:
        with ZipFile(file) as archive:
            note = json.loads(archive.read(_NOTE))
        schema, version = int(note["schema"]), str(note["mlkm"])
    except KeyError:
        raise ValueError(f"{name} is no file that mlkm.save wrote: it does not say by which version.") from None
    except Exception as error:  # whatever a damaged file leads to
        file.seek(0)
        if file.read(2) != b"PK":
            raise ValueError(f"{name} is no file that mlkm.save wrote.") from None
        raise ValueError(f"{name} is a model file that is cut short or damaged: {_words(error)}.") from error
    if schema > SCHEMA:
        raise ValueError(
            f"{name} was written by mlkm {version} in schema {schema}, and mlkm {__version__} reads schemas up to"
            f" {SCHEMA}: install a newer mlkm."
        )


def _model(skops: Any, file: IO[bytes], path: PathLike, trusted: list[str]) -> Any:
    """What the file describes, if it asks for trusted types only; skops looks at all of them before it makes any."""
    name = repr(os.fspath(path))
    file.seek(0)
    try:
        return skops.load(file, trusted=trusted)
    except skops.exceptions.UntrustedTypesFoundException:
        file.seek(0)
        types = ", ".join(own for own in skops.get_untrusted_types(data=file.read()) if own not in trusted)
        raise ValueError(
            f"{name} holds what mlkm.load does not trust: {types}; if you do, name it in trusted=[...]."
        ) from None
    except Exception as error:  # whatever a damaged file leads to
        raise ValueError(f"{name} is damaged or forged: {_words(error)}.") from error


def _target(path: PathLike) -> Path:
    """Where the file goes: behind links, in a folder that is there."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"mlkm.save needs the name of a file; got the folder {os.fspath(path)!r}.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(target.parent)!r} to write {target.name!r} to; make it first."
        )
    return target


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """A new file in the same folder that takes the place of the target once it is complete."""
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(beside, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
