"""Files that appear only when they are complete, models that change as a whole or not at all, and programs that clean
up when they receive SIGTERM.
"""

import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

PathLike = str | os.PathLike[str]


@contextmanager
def atomic_write(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a binary file for writing that gets the name `path` when the block ends, and never if the block fails.

    Until then the file has no name, and the system removes it even if the process is killed. It then gets a hidden
    name, and in the next system call the name `path`. Where the system has no files without a name (other systems than
    Linux, network drives), the content is copied to the hidden file at the end. Links are followed. An existing file
    keeps its permissions, and its owner where the system allows it; a new file has the permissions that the umask
    gives. Pipes, terminals and /dev/null are written to at the end of the block.

    >>> folder = tempfile.mkdtemp()
    >>> with atomic_write(os.path.join(folder, "a.txt")) as file:
    ...     written = file.write(b"all of it")
    ...     os.listdir(folder)
    []
    >>> os.listdir(folder)
    ['a.txt']
    """
    old = check_writable(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with tempfile.TemporaryFile() as file:
            yield file
            with open(path, "wb") as stream:
                _copy(file, stream)
        return
    target = Path(os.path.realpath(path))
    with _unnamed(target.parent) as file:
        yield file
        file.flush()
        _keep_permissions(old, file)
        os.fsync(file.fileno())
        _name(file, target, old)


def check_writable(path: PathLike) -> os.stat_result | None:
    """Raise an OSError if `atomic_write` could not write; return the status of an existing file, or None."""
    name, target = os.fspath(path), Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"An output needs the name of a file; got the folder {name!r}.")
    try:
        old = os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        old = None
    if old is not None and (stat.S_ISFIFO(old.st_mode) or stat.S_ISCHR(old.st_mode)):
        return old
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(f"An output needs the name of a file; got {name!r}, which is a socket or a block device.")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(target.parent)!r} to write {target.name!r} to; make it first."
        )
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(f"The file {name!r} is read-only; make it writable, or give another name.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"The folder {str(target.parent)!r} is read-only; give a file in another folder.")
    return old


def _unnamed(folder: Path) -> IO[bytes]:
    """Open a new file without a name in the folder, for writing and reading."""
    with suppress(AttributeError, OSError):  # a TemporaryFile is for its owner only and gets no name
        return open(os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b")
    return tempfile.TemporaryFile(dir=folder)


def _name(file: IO[bytes], target: Path, old: os.stat_result | None) -> None:
    """Give the file the name of the target, in place of the old file."""
    hidden = target.with_name(f".mlkm-{os.urandom(8).hex()}")  # os.link cannot replace a file, os.replace can
    try:
        try:  # src_dir_fd is not needed, but makes Python call linkat, which follows the link in /proc
            os.link(f"/proc/self/fd/{file.fileno()}", hidden, src_dir_fd=file.fileno())
        except (OSError, NotImplementedError):
            with open(hidden, "xb", opener=partial(os.open, mode=0o666 if old is None else 0o600)) as copy:
                _keep_permissions(old, copy)
                _copy(file, copy)
                copy.flush()
                os.fsync(copy.fileno())
        os.replace(hidden, target)
    finally:
        hidden.unlink(missing_ok=True)


def _keep_permissions(old: os.stat_result | None, file: IO[bytes]) -> None:
    """Give the file the owner and the permissions of the old one; if its group cannot be set, the group gets none."""
    if old is None or not hasattr(os, "fchown"):  # as on Windows
        return
    for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
        with suppress(OSError):
            os.fchown(file.fileno(), owner, group)
    same_group = os.fstat(file.fileno()).st_gid == old.st_gid
    os.fchmod(file.fileno(), old.st_mode & (0o777 if same_group else 0o707))


def _copy(file: IO[bytes], to: IO[bytes]) -> None:
    file.seek(0)
    shutil.copyfileobj(file, to)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt inside, as Ctrl-C does, with the signal's number as its argument.

    This is for programs. Nothing changes where SIGTERM has a handler or is ignored, or outside the main thread.
    """

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt(number)

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
