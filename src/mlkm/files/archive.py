"""The archive of a model file: a note of the version, a description in JSON, and plain arrays in numpy's own format.

Everything is bounded before memory is taken for it: the size that an entry claims, that of all arrays together in
proportion to the file, and the shape and type in the header of every array against the bytes that follow it.
"""

import io
import json
import re
from math import prod
from typing import IO, Any, TypeAlias
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..runtime.records import RefusedError
from ..runtime.sizes import READ_BYTES

Json: TypeAlias = Any  # what json.loads returns: a file may hold anything, which is checked where it is used

NOTE, DESCRIPTION = "mlkm.json", "model.json"
_ARRAY = re.compile(r"[0-9]{1,6}\.npy")
_MAGIC = b"\x93NUMPY\x01\x00"  # beginning of an array in version 1.0 of numpy's format
_HEADER = re.compile(rb"\{'descr': '([^']{2,9})', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \} *\n")
_LONGEST_NOTE = 1000
_SIDES = 8
_ARRAYS = 2**26, 20  # bytes that the arrays of a file may take, plus so many for each byte of the file
_WORDS = 2**20, 5  # bytes that a description may take, plus so many for each of its compressed bytes
_LISTS = 2**17  # lists that a description may have: two bytes of text can become a list of 70 bytes in memory
_LARGEST = 0x10FFFF  # largest code point of Unicode
_DATES = [f"M8[{unit}]" for unit in ("D", "h", "m", "s", "ms", "us", "ns")]
PLAIN: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(name) for name in (np.dtype(code).str for code in [*"?bhiqBHIQefd", *_DATES])
}


def is_plain(dtype: np.dtype[np.generic]) -> bool:
    """Return whether an array of this type holds numbers, dates or words alone, in this machine's order of bytes."""
    return dtype.str in PLAIN or (dtype.kind in "US" and dtype.isnative and dtype.itemsize > 0)


def plain_type(name: str) -> np.dtype[np.generic]:
    """Return the type of this name; refuse types that are not of numbers, dates or words."""
    if name in PLAIN:
        return PLAIN[name]
    if not re.fullmatch(r"[<>|][US][1-9][0-9]{0,5}", name) or not is_plain(np.dtype(name)):
        raise RefusedError(f"{name!r:.100} is not a type of numbers, dates or words")
    return np.dtype(name)


def archived(note: Json, description: Json, arrays: list[NDArray[np.generic]]) -> bytes:
    """Return the content of a file, compressed unless it would then exceed the bounds by which archives are refused."""
    for method in (ZIP_DEFLATED, ZIP_STORED):
        buffer = io.BytesIO()
        with ZipFile(buffer, "w", method) as archive:
            archive.writestr(NOTE, json.dumps(note))
            archive.writestr(DESCRIPTION, json.dumps(description))
            for k, array in enumerate(arrays):
                with archive.open(f"{k}.npy", "w", force_zip64=array.nbytes > 2**30) as entry:
                    npy.write_array(entry, array, version=(1, 0), allow_pickle=False)
            words, whole = archive.getinfo(DESCRIPTION), sum(_claimed(a.shape, a.dtype) for a in arrays)
        content = buffer.getvalue()
        if words.file_size <= _most(_WORDS, words.compress_size) and whole <= _most(_ARRAYS, len(content)):
            break
    return content


class Archive:
    """The entries of a file that is open for reading."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = ZipFile(file)
        self._left = _most(_ARRAYS, file.seek(0, 2))

    def check(self) -> None:
        """Refuse entries that no model file has."""
        entries = sorted(self._zip.infolist(), key=lambda entry: entry.header_offset)
        ends = [entry.header_offset for entry in entries[1:]] + [self._zip.start_dir]
        for entry, end in zip(entries, ends, strict=True):
            if entry.filename not in (NOTE, DESCRIPTION) and not _ARRAY.fullmatch(entry.filename):
                raise RefusedError(f"it has an entry {entry.filename!r}, which no model file has")
            if entry.flag_bits & 1 or entry.compress_type not in (ZIP_DEFLATED, ZIP_STORED):
                raise RefusedError(f"its entry {entry.filename!r} is neither stored nor deflated")
            if entry.header_offset + 30 + len(entry.filename) + entry.compress_size > end:
                raise RefusedError(f"its entry {entry.filename!r} overlaps another")
        if len({entry.filename for entry in entries}) < len(entries):
            raise RefusedError("two of its entries have the same name")

    @property
    def note(self) -> Json:
        """Return the note of the version that wrote the file."""
        return json.loads(self._read(self._zip.getinfo(NOTE), _LONGEST_NOTE))

    @property
    def description(self) -> Json:
        """Return the description of the model, if it is within the bounds of a model file."""
        entry = self._zip.getinfo(DESCRIPTION)
        text = self._read(entry, _most(_WORDS, entry.compress_size))
        if text.count(b"[") + text.count(b"{") > _LISTS + len(text) // 8:
            raise RefusedError("its description is made of far more lists than that of a model file")
        return json.loads(text)

    def _read(self, entry: ZipInfo, most: int) -> bytes:
        """Read an entry; refuse one that claims to be larger than allowed."""
        if entry.file_size > most:
            raise RefusedError(
                f"its entry {entry.filename!r} takes {entry.file_size:,} bytes, and {most:,} are allowed"
            )
        return self._zip.read(entry)

    def array(self, k: int) -> NDArray[np.generic]:
        """Return array number k, whose header and entry must claim the same number of bytes."""
        entry = self._zip.getinfo(f"{k}.npy")
        with self._zip.open(entry) as file:
            begins, length = file.read(8), int.from_bytes(file.read(2), "little")
            header = _HEADER.fullmatch(file.read(min(length, _LONGEST_NOTE)))
            if begins != _MAGIC or header is None:
                raise RefusedError(f"its array {k} has a header that numpy does not write")
            dtype = plain_type(header[1].decode())
            shape = tuple(int(side) for side in header[3].split(b",") if side.strip())
            if len(shape) > _SIDES or entry.file_size - file.tell() != _size(shape, dtype):
                raise RefusedError(f"its array {k} does not have as many bytes as its shape {shape} needs")
            self._left -= _claimed(shape, dtype)
            if self._left < 0:
                raise RefusedError("its arrays take far more memory than a file of this size may")
            array = np.empty(shape, dtype, "F" if header[2] == b"True" else "C")
            flat = array.reshape(-1, order="A").view(np.uint8)
            for at in range(0, flat.size, READ_BYTES):
                flat[at : at + READ_BYTES] = np.frombuffer(file.read(min(READ_BYTES, flat.size - at)), np.uint8)
        _check_content(array, k)
        return array


def _check_content(array: NDArray[np.generic], k: int) -> None:
    """Refuse bytes that are not truth values or code points, since numpy does not check them."""
    if array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise RefusedError(f"its array {k} holds bytes that are not truth values")
    if array.dtype.kind == "U" and array.reshape(-1, order="A").view(np.uint32).max(initial=0) > _LARGEST:
        raise RefusedError(f"its array {k} holds numbers that are not code points of letters")


def _most(bound: tuple[int, int], size: int) -> int:
    return bound[0] + bound[1] * size


def _size(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    return prod(shape) * dtype.itemsize


def _claimed(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> int:
    """Return the bytes of an array; an axis of length zero counts as one, since its other axes may be long."""
    return _size(tuple(max(side, 1) for side in shape), dtype)
