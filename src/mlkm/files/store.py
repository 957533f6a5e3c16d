"""Models as files: a zip archive of plain arrays and a description in JSON, with a note of the version that wrote it.

A model file is data. It has records of a fixed list under plain names (`mlkm.files.schema`), a few estimators of
scikit-learn (`mlkm.files.others`), and numbers, words and arrays for their attributes, which are checked; no other
objects are made.
"""

import os
import re
from collections.abc import Sequence
from typing import IO, Any

from sklearn.base import BaseEstimator

from .._version import __version__
from ..conformal.regressor import ConformalRegressor
from ..exceptions import warn
from ..runtime.atomic import atomic_write, check_writable
from ..runtime.checks import brief, file_path, yes_no
from ..runtime.records import RefusedError
from .archive import Archive, archived
from .decode import Decoder, UntrustedError
from .encode import Encoder, NeedsRowsError

SCHEMA = 4  # raised when the format of files changes

PathLike = str | os.PathLike[str]


def save(model: object, path: PathLike, *, keep_rows: bool = True) -> None:
    """Write a model, fitted or not, to a file that `mlkm.load` reads; predictions are the same to the last bit.

    The file gets its name only when it is complete: a save that is interrupted leaves the file that was there before.

    Parameters
    ----------
    model : estimator
        All estimators of this package, and scikit-learn's around them: pipelines, searches, bands.
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
    path = file_path("path", path)
    yes_no("keep_rows", keep_rows)
    check_writable(path)  # before any work
    try:
        encoded = Encoder(model, keep_rows)
        note, description = {"schema": SCHEMA, "mlkm": __version__}, {"objects": encoded.objects}
        content = archived(note, description, encoded.arrays)
    except NeedsRowsError:
        raise
    except Exception as error:
        raise ValueError(f"{type(model).__name__} cannot be written to a file: {_words(error)}.") from error
    with atomic_write(path) as file:
        file.write(content)
    without_std = encoded.without_std
    if without_std and not isinstance(model, ConformalRegressor):  # a band that needs them was refused
        warn(
            f"The standard deviations of {' and '.join(sorted(without_std))} need the training rows, and without them"
            " predict(X, return_std=True) will not work in the loaded model; keep_rows=True keeps them."
        )


def load(path: PathLike, *, trusted: Sequence[str] = ()) -> Any:
    """Read a model that `mlkm.save` wrote. No code from the file runs, and no other file is opened.

    Parameters
    ----------
    path : str or path
    trusted : sequence of str, default=()
        Full names of further classes and functions that the file may ask for, such as "sklearn.tree._tree.Tree" for a
        band around a random forest; the error of a refused file lists them. They are called with whatever the file
        holds: name them only for files of authors whose programs you would run.
    """
    if not isinstance(trusted, (list, tuple)) or not all(isinstance(name, str) for name in trusted):
        raise TypeError(f"trusted must be a list of names, as in ['package.module.Class']; got {brief(trusted)}.")
    path = file_path("path", path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}.")
    name = repr(str(path))
    with open(path, "rb") as file:
        archive = _opened(file, name)
        try:
            archive.check()
            model = Decoder(archive, set(trusted)).model(archive.description)
        except UntrustedError as error:
            raise ValueError(
                f"{name} asks for classes or functions that mlkm.load does not trust: {error}; if you trust the author"
                " of the file, name them in trusted=[...]."
            ) from None
        except Warning:  # where warnings are errors, such as that about another version of scikit-learn
            raise
        except Exception as error:  # a damaged file can raise any error
            raise ValueError(f"{name} is damaged or forged: {_words(error)}.") from error
    if not isinstance(model, BaseEstimator):
        raise ValueError(f"{name} does not hold a model, but an object of type {type(model).__name__}.")
    return model


def _words(error: Exception) -> str:
    """Return the message of an error as part of a sentence."""
    text = " ".join(str(error).split())[:300].rstrip(".")
    return text if isinstance(error, RefusedError) else f"{type(error).__name__}, {text}"


def _opened(file: IO[bytes], name: str) -> Archive:
    """Return the archive; refuse a file that is not a model, or has another schema, before more of it is read."""
    try:
        archive = Archive(file)
        note = archive.note
        schema, version = int(note["schema"]), str(note["mlkm"])
        if not re.fullmatch(r"[\w.+-]{1,30}", version):
            raise RefusedError("its note of the version is not valid")
    except KeyError:
        raise ValueError(f"{name} is no file that mlkm.save wrote: it does not say by which version.") from None
    except Exception as error:  # a damaged file can raise any error
        file.seek(0)
        if file.read(2) != b"PK":
            raise ValueError(f"{name} is no file that mlkm.save wrote.") from None
        raise ValueError(f"{name} is a model file that is cut short, damaged or forged: {_words(error)}.") from error
    if schema != SCHEMA:
        remedy = "install a newer mlkm" if schema > SCHEMA else "save the model again"
        raise ValueError(
            f"{name} was written by mlkm {version} in schema {schema}, and mlkm {__version__} reads schema"
            f" {SCHEMA}: {remedy}."
        )
    return archive
