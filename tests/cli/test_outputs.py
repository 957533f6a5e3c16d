"""Outputs appear only when complete, keep the permissions of earlier files, and replace nothing but files."""

import errno
import inspect
import os
import signal
import socket
import stat
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import mlkm
from mlkm import ConformalRegressor, RandomFeatureRidge
from mlkm.cli.commands import app

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, permissions and signals of Linux")

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.standard_normal((80, 3)), columns=["a", "b", "c"])
Y = FRAME["a"].to_numpy() + 0.1 * RNG.standard_normal(80)


@pytest.fixture(scope="module")
def model():
    fitted = RandomFeatureRidge(20, scale=0.5, random_state=0).fit(FRAME[:40], Y[:40])
    return ConformalRegressor(fitted, confidence_level=0.8).conformalize(FRAME[40:], Y[40:])


@pytest.fixture(scope="module")
def read(tmp_path_factory, model):
    """A folder with what the commands read."""
    folder = tmp_path_factory.mktemp("read")
    FRAME.assign(y=Y).to_parquet(folder / "rows.parquet")
    mlkm.save(model, folder / "model.mlkm")
    return folder


@pytest.fixture(scope="module")
def writers(read, model):
    """Every way to write a file, by the file's name."""
    report = model.report(FRAME, Y)
    rows, saved = str(read / "rows.parquet"), str(read / "model.mlkm")

    def command(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exit_code:
            raise OSError(result.stderr)

    return {
        "saved.mlkm": lambda path: mlkm.save(model, path),
        "exported.onnx": lambda path: mlkm.to_onnx(model, path),
        "predicted.csv": lambda path: mlkm.predict_table(model, rows, path),
        "predicted.parquet": lambda path: mlkm.predict_table(model, rows, path),
        "report.html": report.save,
        "command.csv": lambda path: command("predict", saved, rows, "--out", path),
        "command.onnx": lambda path: command("export", saved, "--onnx", path),
    }


@pytest.fixture(params=["unnamed", "named"])
def system(request, monkeypatch):
    """Run with files without a name, and without such files, as on network drives."""
    if request.param == "named":
        monkeypatch.setattr(os, "open", named_only(os.open))


def named_only(opened):
    def open_file(path, flags, *given, **options):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *given, **options)

    return open_file


def test_a_pipe_gets_the_file_and_stays_a_pipe(writers, tmp_path):
    for name, write in writers.items():
        path, got = tmp_path / name, []
        write(path)
        expected = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        reader = threading.Thread(target=lambda path=path, got=got: got.append(path.read_bytes()), daemon=True)
        reader.start()
        write(path)
        reader.join(timeout=60)
        assert stat.S_ISFIFO(path.stat().st_mode), name
        if name.endswith(".mlkm"):  # a zip archive contains the time
            path.unlink()
            path.write_bytes(got[0])
            assert mlkm.load(path).confidence_level == 0.8
        else:
            assert got[0] == expected, name
    assert {path.name for path in tmp_path.iterdir()} == set(writers)


def test_a_terminal_is_written_to(writers, tmp_path):
    ours, theirs = os.openpty()
    (tmp_path / "predicted.csv").symlink_to(os.ttyname(theirs))
    writers["predicted.csv"](tmp_path / "predicted.csv")
    assert os.read(ours, 30).startswith(b'"prediction","lower","upper"')
    assert stat.S_ISCHR((tmp_path / "predicted.csv").stat().st_mode)
    os.close(ours)
    os.close(theirs)


def test_sockets_and_folders_are_refused(writers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    for name, write in writers.items():
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
            with pytest.raises(OSError, match=r"An output needs the name of a file; got '.*', which is a socket"):
                write(tmp_path / name)
        assert stat.S_ISSOCK(os.stat(name).st_mode)
        os.unlink(name)
        os.mkdir(name)
        with pytest.raises(OSError, match="An output needs the name of a file; got the folder"):
            write(tmp_path / name)
        with pytest.raises(OSError, match=r"There is no folder '.*none' to write '.*' to"):
            write(tmp_path / "none" / name)


def test_what_is_read_only_stays_so(writers, tmp_path, monkeypatch):
    access = os.access  # root may write everything
    for place, said in ((tmp_path, "The folder '.*' is read-only"), (None, "The file '.*' is read-only")):
        for name, write in writers.items():
            path = tmp_path / name
            if place is None:
                path.write_bytes(b"before")
            with monkeypatch.context() as patch:
                refused = place or path
                patch.setattr(os, "access", lambda p, mode, no=refused: (p, mode) != (no, os.W_OK) and access(p, mode))
                with pytest.raises(OSError, match=said):
                    write(path)
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"before"}


@pytest.mark.usefixtures("system")
def test_permissions_are_those_of_the_old_file_or_of_the_umask(writers, tmp_path, monkeypatch):
    for name, write in writers.items():
        path = tmp_path / name
        for mask in (0o022, 0o077):
            before = os.umask(mask)
            try:
                with monkeypatch.context() as patch:  # the umask and signal handlers are shared by all threads
                    patch.setattr(os, "umask", lambda mask: pytest.fail("the umask was changed"))
                    write(path)
                    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask, (name, mask)
                    for mode in (0o600, 0o664):
                        path.chmod(mode)
                        write(path)
                        assert stat.S_IMODE(path.stat().st_mode) == mode, (name, mask)
            finally:
                os.umask(before)
            path.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.usefixtures("system")
def test_the_owner_stays(writers, tmp_path):
    for name, write in writers.items():
        path = tmp_path / name
        path.touch(0o640)
        os.chown(path, 12345, 54321)
        write(path)
        found = path.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o640), name


@pytest.mark.usefixtures("system")
def test_a_group_that_cannot_be_kept_gets_nothing(model, tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError

    path = tmp_path / "model.mlkm"
    path.touch()
    path.chmod(0o664)
    os.chown(path, -1, 54321) if os.geteuid() == 0 else pytest.skip("only root can give files away")
    monkeypatch.setattr(os, "fchown", refused)
    mlkm.save(model, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.usefixtures("system")
def test_links_are_followed_and_long_names_fit(writers, tmp_path):
    for name, write in writers.items():
        stem, _, kind = name.partition(".")
        (tmp_path / stem).mkdir(exist_ok=True)
        link, path = tmp_path / name, tmp_path / stem / f"{'n' * (250 - len(kind))}.{kind}"
        link.symlink_to(path)
        write(link)
        write(str(link))
        assert link.is_symlink()
        assert path.stat().st_size > 0
        assert [own for own in (tmp_path / stem).iterdir() if own.name[0] != "n"] == []


@pytest.mark.usefixtures("system")
def test_a_full_disk_leaves_the_old_file(writers, tmp_path):
    """A limit on the size of files stands in for a full disk: the system refuses to write beyond it."""
    for name, write in writers.items():
        (tmp_path / name).write_bytes(b"before")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                write(tmp_path / name)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (tmp_path / name).read_bytes() == b"before", name
    assert {path.name for path in tmp_path.iterdir()} == set(writers)


def test_only_programs_handle_signals(writers, tmp_path, monkeypatch):
    seen, install = [], signal.signal
    monkeypatch.setattr(signal, "signal", lambda number, handler: seen.append(number) or install(number, handler))
    for name, write in writers.items():
        seen.clear()
        write(tmp_path / name)
        assert bool(seen) == name.startswith("command"), name
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with monkeypatch.context() as patch:
        patch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)
        seen.clear()
        writers["command.csv"](tmp_path / "command.csv")
        assert seen == []


WAITING = f"""
import errno, os, sys, time
from pyarrow.parquet import ParquetWriter
from mlkm.cli import main

{inspect.getsource(named_only)}
def wait(*_):
    print("writing", flush=True)
    time.sleep(60)

if sys.argv.pop(1) == "named":
    os.open = named_only(os.open)
    os.replace = wait
else:
    ParquetWriter.write_table = wait
main()
"""


@pytest.mark.parametrize(("how", "by"), [("unnamed", "SIGKILL"), ("named", "SIGTERM")])
def test_a_command_that_is_killed_leaves_nothing_behind(read, tmp_path, how, by):
    words = ["predict", read / "model.mlkm", read / "rows.parquet", "--out", tmp_path / "p.parquet"]
    command = [sys.executable, "-c", WAITING, how, *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "TMPDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.Signals[by])
        _, err = process.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == []
    if by == "SIGTERM":
        assert process.returncode == 143
        assert err.endswith("\nStopped: outputs that were not complete were not written.\n")
