"""What a run leaves to read: one Markdown file per experiment, one HTML page that shows them all, and the tables of
docs/paper.md. Both pages begin with the paper's claims and what became of them."""

import html
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import mlkm
from mlkm.runtime.atomic import atomic_write

from . import agreement, claims
from .claims.base import NEARLY, NO, PART, TAIL, YES
from .experiment import Block, Details, Entry, Figure, Table, Text
from .experiments import EXPERIMENTS
from .runner import store_of
from .tables import to_markdown

LEGEND = (
    "Mean ± standard error over seeds. Numbers in brackets are the published ones; those with * are in the published"
    " notebooks but not in the paper. Bold: the lowest of its column. `as-written` follows the paper's text, `as-coded`"
    " has the data of the published program; `available rows` are drawn from a sample of YearPredictionMSD."
)
VERDICTS = {YES: "yes", NO: "no", PART: "part", NEARLY: "part", TAIL: "part"}
SUMMARIES = {"claims": claims.TITLE, "agreement": agreement.TITLE}
STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1180px; padding: 1.5rem; color: #1b1f24; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .4rem; border-top: 1px solid #d5dae0; padding-top: 1.4rem; }
#claims h2 { border-top: 0; padding-top: 0; margin-top: 1.2rem; }
nav { columns: 3 17rem; margin: 1rem 0 0; padding: 0; }
nav a { display: block; color: #0b5cad; text-decoration: none; padding: .08rem 0; }
.tables { display: flex; flex-wrap: wrap; column-gap: 3rem; align-items: flex-start; }
.scroll { overflow-x: auto; margin: .8rem 0 1.4rem; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px; }
caption { text-align: left; font-weight: 600; padding: .2rem 0 .4rem; }
th, td { padding: .24rem .7rem .24rem .5rem; text-align: right; vertical-align: top;
  white-space: nowrap; border-bottom: 1px solid #e7eaee; }
th:first-child { padding-left: .2rem; text-align: left; position: sticky; left: 0; background: #fff; }
thead th { border-bottom: 2px solid #9aa4af; }
tr.ours th, tr.ours td { background: #eef6ff; }
table.words { font-size: 13px; min-width: 46rem; }
table.words th, table.words td { text-align: left; white-space: normal; }
table.words tbody th { font-weight: 500; width: 21rem; } table.words td:nth-child(2) { white-space: nowrap; }
table.words td:last-child { min-width: 7.5rem; }
.yes { color: #116329; } .no { color: #b1272a; } .part { color: #8a5a00; }
.yes, .no, .part { font-weight: 600; } a { color: #0b5cad; }
details { margin: .6rem 0; } summary { cursor: pointer; color: #0b5cad; }
.best { font-weight: 700; } .published { display: block; color: #6a737d; font-size: 12px; }
.notice { background: #fff4d6; padding: .5rem .8rem; border-radius: 4px; font-weight: 600; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; } figcaption { color: #57606a; font-size: 13px; }
p { max-width: 62rem; } code { background: #f1f3f5; padding: 0 .25em; border-radius: 3px; }
"""


def reports(folder: Path, quick: bool = False) -> dict[str, list[Block]]:
    """The blocks of every experiment that has results in the folder; figures are drawn."""
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Block]] = {}
    every = {name: store_of(experiment, folder, quick).read() for name, experiment in EXPERIMENTS.items()}
    if not quick:
        found = {"claims": claims.blocks(every), "agreement": agreement.blocks(folder)}
    for name, results in every.items():
        if results.cells:
            found[name] = EXPERIMENTS[name].report(results, figures)
    return {name: parts for name, parts in found.items() if parts}


def title_of(name: str) -> str:
    return SUMMARIES[name] if name in SUMMARIES else EXPERIMENTS[name].title


QUICK = (
    "Quick run: fewer seeds, rows, dimensions and epochs than in the paper, to see that everything works. Its numbers"
    " are not results."
)


def write_reports(folder: Path, quick: bool = False) -> None:
    """Markdown files and the page; those of a quick run say so at their beginning."""
    blocks, legend = reports(folder, quick), f"**{QUICK}** {LEGEND}" if quick else LEGEND
    for name, parts in blocks.items():
        text = f"# {title_of(name)}\n\n{legend}\n\n" + "\n".join(to_markdown(part) for part in parts)
        _write(folder / f"{name}.md", text)
    _write(folder / "index.html", _page(blocks, quick))


def write_document(folder: Path, path: Path) -> None:
    """Replace what stands between <!-- name --> and <!-- /name --> in the document by the tables of that experiment."""
    text, to_figures = path.read_text(encoding="utf-8"), "../paper/results/"
    for name, parts in reports(folder).items():
        tables = "\n".join(to_markdown(part, to_figures, "#{}") for part in parts)
        text = re.sub(
            rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
            lambda match, tables=tables: f"{match[1]}{tables}{match[2]}",
            text,
            flags=re.DOTALL,
        )
    _write(path, text)


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())


def _page(blocks: dict[str, list[Block]], quick: bool) -> str:
    notice = f'<p class="notice">{QUICK}</p>\n' if quick else ""
    rest = [name for name in blocks if name != "claims"]
    links = "\n".join(f'<a href="#{name}">{html.escape(title_of(name))}</a>' for name in rest)
    first = _section("claims", blocks["claims"]) if "claims" in blocks else ""
    sections = "\n".join(_section(name, blocks[name]) for name in rest)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Multi-Layer Kernel Machines: the paper's experiments</title><link rel="icon" href="data:,">
<style>{STYLE}</style></head>
<body><h1>Multi-Layer Kernel Machines: the paper's experiments</h1>
{notice}<p>Every table and figure, computed again by <code>python -m paper</code> with mlkm {mlkm.__version__}.</p>
{first}
<nav>{links}</nav>
<p>{_words(LEGEND)}</p>
{sections}
</body></html>
"""


def _section(name: str, parts: list[Block]) -> str:
    return f'<section id="{name}"><h2>{html.escape(title_of(name))}</h2>\n{_body(parts)}</section>'


def _body(parts: Sequence[Block]) -> str:
    """The blocks in their order; tables that follow each other stand side by side where there is room."""
    lines = []
    for are_tables, group in groupby(parts, lambda part: isinstance(part, Table)):
        blocks = "".join(map(_block, group))
        lines.append(f'<div class="tables">{blocks}</div>\n' if are_tables else blocks)
    return "".join(lines)


def _words(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"<p>{_words(block.text)}</p>\n"
    if isinstance(block, Figure):
        source, title = f"{block.path.parent.name}/{block.path.name}", html.escape(block.title)
        return f'<figure><img src="{source}" alt="{title}"><figcaption>{title}</figcaption></figure>\n'
    if isinstance(block, Details):
        return f"<details><summary>{html.escape(block.title)}</summary>\n{_body(block.parts)}</details>\n"
    return _table(block)


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.header)
    lines = "\n".join(
        f'<tr{_ours(name)}><th scope="row">{html.escape(name)}</th>{"".join(_entry(entry) for entry in entries)}</tr>'
        for name, entries in table.lines
    )
    caption = f"<caption>{html.escape(table.title)}</caption>" if table.title else ""
    kind = ' class="words"' if table.words else ""
    return (
        f'<div class="scroll"><table{kind}>{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>\n{lines}\n</tbody></table></div>\n"
    )


def _ours(name: str) -> str:
    return ' class="ours"' if name.startswith("mlkm") else ""


def _entry(entry: Entry) -> str:
    known = f'<span class="published">[{html.escape(entry.published)}]</span>' if entry.published else ""
    links = ", ".join(f'<a href="#{name}">{html.escape(words)}</a>' for words, name in entry.links)
    marks = ["best"] if entry.best and entry.ours else [VERDICTS[entry.ours]] if entry.ours in VERDICTS else []
    kind = f' class="{marks[0]}"' if marks else ""
    return f"<td{kind}>{html.escape(entry.ours)}{links}{known}</td>"
