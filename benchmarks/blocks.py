"""A page as a list of headings, paragraphs, tables and figures, written as Markdown or HTML.

Text may contain `code` and **bold** words.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Heading:
    text: str
    level: int


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Table:
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    file: str
    svg: bytes
    caption: str


Block = Heading | Text | Table | Figure

_CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22262a; background: #fff;
  max-width: 1200px; margin: 2em auto; padding: 0 1em; }
h1, h2, h3 { line-height: 1.2; margin: 1.8em 0 0.5em; } h1 { margin-top: 0; }
.table { overflow-x: auto; margin: 1em 0; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25em 0.55em; text-align: right; border-bottom: 1px solid #e6e8ea; white-space: nowrap; }
th { border-bottom: 2px solid #9aa3ad; vertical-align: bottom; white-space: normal; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
tr:hover td { background: #f2f6fb; }
.caption { color: #60676e; font-size: 13px; }
figure { margin: 1.5em 0; } img { max-width: 100%; }
code { white-space: nowrap; background: #f1f3f5; padding: 0 0.25em; border-radius: 3px; }
"""


def markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def html(blocks: Sequence[Block]) -> str:
    """One file with everything in it."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    body = "\n".join(_html(block) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport"'
        ' content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Figure(file, _, caption):
            return f"![{caption}]({file})"
        case Table(header, rows, caption):
            align = ["---" if _is_text(column) else "---:" for column in zip(*rows, strict=True)]
            lines = [_line(header), _line(align), *(_line(row) for row in rows)]
            return "\n".join(lines) + (f"\n\n{caption}" if caption else "")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Figure(_, svg, caption):
            source = base64.b64encode(svg).decode()
            image = f'<img src="data:image/svg+xml;base64,{source}" alt="{escape(caption)}">'
            return f'<figure>{image}<figcaption class="caption">{_inline(caption)}</figcaption></figure>'
        case Table(header, rows, caption):
            left = [_is_text(column) for column in zip(*rows, strict=True)]
            lines = [_html_row("th", header, left), *(_html_row("td", row, left) for row in rows)]
            below = f'<div class="caption">{_inline(caption)}</div>' if caption else ""
            return f'<div class="table"><table>\n{"".join(lines)}</table>{below}</div>'


def _html_row(tag: str, cells: Sequence[str], left: Sequence[bool]) -> str:
    styles = [' style="text-align: left"' if is_left else "" for is_left in left]
    return (
        "<tr>"
        + "".join(f"<{tag}{style}>{_inline(cell)}</{tag}>" for cell, style in zip(cells, styles, strict=True))
        + "</tr>\n"
    )


def _inline(text: str) -> str:
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]*)\*\*", r"<b>\1</b>", text)


def _is_text(column: Sequence[str]) -> bool:
    """Whether no cell of a column begins with a number."""
    return not any(re.match(r"[*]*[-\d]", cell) for cell in column)
