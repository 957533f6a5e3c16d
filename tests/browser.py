"""A page in Chromium by its own protocol, for tests: what it logs, what it asks for, and what axe-core finds, without
any package beside the standard library."""

import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--allow-file-access-from-files", "--enable-logging=stderr",
]  # fmt: skip


def dumped(path, profile, *more):
    """The page as Chromium has made it after its scripts ran, and what was logged."""
    words = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *more, "--virtual-time-budget=8000", "--dump-dom"]
    done = subprocess.run([*words, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
