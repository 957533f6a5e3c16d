"""Every Python block of the README and of the pages runs, block after block, in the order of the page.

Blocks of one page share their names, as a reader would run them. Shell commands and output are not run. Pages without
a Python block have no test. A block that begins with a comment `# not run:` says why it is not.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SLOW = {"README.md", "docs/bands.md", "docs/guide/memory.md", "docs/scale.md"}  # more than five seconds
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(path):
    """Each with the line of the page on which it begins."""
    text = path.read_text()
    return [(text[: found.start(1)].count("\n"), found[1]) for found in _BLOCK.finditer(text)]


def pages():
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    kept = [page for page in found if not {"_build", "gallery"} & set(page.relative_to(ROOT).parts) and blocks(page)]
    names = [str(page.relative_to(ROOT)) for page in kept]
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]


NEEDS = {"docs/onnx.md": "onnxruntime"}


@pytest.mark.parametrize("name", pages())
def test_the_code_of_a_page_runs(name, monkeypatch, tmp_path):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for line, code in blocks(ROOT / name):
        if not code.startswith("# not run:"):
            exec(compile("\n" * line + code, str(ROOT / name), "exec"), names)


def test_slow_pages_exist():
    assert all((ROOT / name).exists() for name in SLOW)
