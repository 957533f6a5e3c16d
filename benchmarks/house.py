"""The size and the habits of the source tree, beside their bars: python -m benchmarks.house [--src PATH] [--trace]

Counted from the text: files, lines of code (without blank lines, comments and docstrings), the word `Any`, `isinstance`
on classes of the package, private attributes that are reached from outside (`x._name` with x other than self, cls and
super()), numbers at module level, missing docstrings, docstrings that are no sentence, and names used twice. With
`--trace` five calls are made and the files that they pass are counted and listed (`benchmarks.walks`). `--list` adds
the place of everything that is counted, or of the kinds named after it.

Timings have a script of their own, `benchmarks.before_after`.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .sentences import begins_amid, is_fragment
from .walks import SRC, WALKS, walk

__all__ = ["Module", "figures", "read", "walk"]

BARS = {
    "files": "<= 130",
    "code lines": "<= 11,500",
    "Any": "<= 300",
    "isinstance on own types": "<= 30",
    "private reaches": "<= 5",
    "module-level numbers": "0 that decide",
    "functions without docstring": "0",
    "modules and public classes without docstring": "0",
    "docstring fragments": "0",
    "fragments that begin with a preposition": "0",
    "class names used twice": "0",
    "module names used twice": "0",
}
WALK_BARS = {"fit": "<= 30", "predict": "<= 8", "conformal": "<= 38", "parquet": "<= 38"}
SHORT = 5  # lines up to which a private function needs no docstring

Function = ast.FunctionDef | ast.AsyncFunctionDef
_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Module:
    """A file of the package: its path in the package, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    def place(self, node: ast.AST, words: str) -> str:
        """Return where a node is, with a few words on it."""
        return f"{self.path}:{getattr(node, 'lineno', 1)} {words}"


def read(src: Path) -> list[Module]:
    """Return the modules of the package in a source tree."""
    package = src / "mlkm"
    paths = sorted(package.rglob("*.py"))
    if not paths:
        raise FileNotFoundError(f"there is no package mlkm in {src}")
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [Module(p.relative_to(package).as_posix(), t, ast.parse(t)) for p, t in zip(paths, texts, strict=True)]


def code_lines(module: Module) -> int:
    """Return the number of lines that are neither blank nor a comment nor part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in _LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def any_words(modules: list[Module]) -> Iterator[str]:
    """Yield the lines with the word `Any`, as often as it stands there."""
    for module in modules:
        for number, line in enumerate(module.text.splitlines(), 1):
            for _ in re.findall(r"\bAny\b", line):
                yield f"{module.path}:{number} {line.strip()}"


def isinstance_on_own_types(modules: list[Module]) -> Iterator[str]:
    """Yield the calls of `isinstance` that name a class of the package."""
    classes = {node.name for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)}
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                parts = list(ast.walk(node.args[1]))
                names = {part.id for part in parts if isinstance(part, ast.Name)}
                names |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
                if names & classes:
                    yield module.place(node, ast.unparse(node))


def private_reaches(modules: list[Module]) -> Iterator[str]:
    """Yield the attributes with one leading underscore of anything but self, cls and super()."""
    for module in modules:
        for node in ast.walk(module.tree):
            private = isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr)
            if private and ast.unparse(node.value) not in ("self", "cls", "super()"):
                yield module.place(node, ast.unparse(node))


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression is a number, arithmetic with one, or a tuple or list of numbers."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) or _is_number(node.right)
    return isinstance(node, ast.Tuple | ast.List) and bool(node.elts) and all(map(_is_number, node.elts))


def module_numbers(modules: list[Module]) -> Iterator[str]:
    """Yield the numbers, and tuples of numbers, that are assigned at module level."""
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_number(node.value):
                yield module.place(node, ast.unparse(node))


def _definitions(
    node: ast.AST, public: bool = True, documented: bool = False
) -> Iterator[tuple[Function | ast.ClassDef, bool, bool]]:
    """Yield functions and classes, whether each is public, and whether it is in a class that has a docstring."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            named = public and not child.name.startswith("_")
            is_class = isinstance(child, ast.ClassDef)
            yield child, named, documented
            yield from _definitions(child, named and is_class, is_class and ast.get_docstring(child) is not None)
        else:
            yield from _definitions(child, public, documented)


def _needs_none(node: Function, documented_class: bool) -> bool:
    """Return whether docstrings elsewhere describe a function: overloads, setters, constructors of a class with one."""
    decorators = [ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list]
    return bool({"overload", "setter"} & set(decorators)) or (node.name == "__init__" and documented_class)


def functions_without_docstring(modules: list[Module]) -> Iterator[str]:
    """Yield functions without docstring that are public or longer than SHORT lines."""
    for module in modules:
        for node, public, documented_class in _definitions(module.tree):
            if isinstance(node, ast.ClassDef) or ast.get_docstring(node) or _needs_none(node, documented_class):
                continue
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if public or lines > SHORT:
                yield module.place(node, f"{node.name}, {lines} lines, {'public' if public else 'private'}")


def undescribed(modules: list[Module]) -> Iterator[str]:
    """Yield modules and public classes without docstring."""
    for module in modules:
        if module.text.strip() and not ast.get_docstring(module.tree):
            yield module.place(module.tree, "module")
        for node, public, _ in _definitions(module.tree):
            if isinstance(node, ast.ClassDef) and public and not ast.get_docstring(node):
                yield module.place(node, f"class {node.name}")


def fragments(modules: list[Module]) -> Iterator[tuple[str, str]]:
    """Yield docstrings whose first sentence has no verb, with their place; a noun will do for modules and classes."""
    for module in modules:
        for node in [module.tree, *(node for node, _, _ in _definitions(module.tree))]:
            docstring = ast.get_docstring(node)
            if docstring and is_fragment(docstring, noun_allowed=not isinstance(node, Function)):
                first = docstring.split("\n\n")[0].replace("\n", " ")
                yield docstring, module.place(node, f"{getattr(node, 'name', 'module')}: {first}")


def used_twice(places: Iterator[tuple[str, str]]) -> list[str]:
    """Return names that stand for more than one thing, with all their places; leading underscores do not count."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in places:
        by_name[name.lstrip("_")].append(place)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(by_name.items()) if len(where) > 1]


def class_names(modules: list[Module]) -> Iterator[tuple[str, str]]:
    """Yield the name and the place of every class."""
    for module in modules:
        for node, _, _ in _definitions(module.tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, f"{module.path}:{node.lineno}"


def module_names(modules: list[Module]) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of every module except `__init__` and `__main__`."""
    for module in modules:
        if not (name := Path(module.path).stem).startswith("__"):
            yield name, module.path


def figures(modules: list[Module]) -> dict[str, list[str]]:
    """Return the places of everything that is counted by places, by the names that BARS has."""
    without_verb = list(fragments(modules))
    return {
        "Any": list(any_words(modules)),
        "isinstance on own types": list(isinstance_on_own_types(modules)),
        "private reaches": list(private_reaches(modules)),
        "module-level numbers": list(module_numbers(modules)),
        "functions without docstring": list(functions_without_docstring(modules)),
        "modules and public classes without docstring": list(undescribed(modules)),
        "docstring fragments": [place for _, place in without_verb],
        "fragments that begin with a preposition": [place for words, place in without_verb if begins_amid(words)],
        "class names used twice": used_twice(class_names(modules)),
        "module names used twice": used_twice(module_names(modules)),
    }


def line(name: str, figure: int, bar: str) -> str:
    """Return a line of the table."""
    return f"{name:<46}{figure:>8,}   {bar}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--src", type=Path, default=SRC, help="the source tree, if not this one")
    parser.add_argument("--trace", action="store_true", help="also count and list the files that five calls pass")
    parser.add_argument(
        "--list", nargs="*", metavar="KIND", help="the places of what is counted, of all kinds or these"
    )
    options = parser.parse_args()
    modules = read(options.src)
    places = figures(modules)
    counts = {"files": len(modules), "code lines": sum(map(code_lines, modules))}
    counts |= {name: len(lines) for name, lines in places.items()}
    print(f"{'':<46}{'figure':>8}   bar")
    for name, bar in BARS.items():
        print(line(name, counts[name], bar))
    walks = {name: walk(name, options.src) for name in WALKS} if options.trace else {}
    for name, files in walks.items():
        print(line(f"files passed: {WALKS[name]}", len(files), WALK_BARS.get(name, "-")))
    listed = {f"files passed: {WALKS[name]}": files for name, files in walks.items()}
    if options.list is not None:
        listed |= {name: places[name] for name in options.list or places}
    for name, lines in listed.items():
        print(f"\n{name}", *lines, sep="\n  ")


if __name__ == "__main__":
    main()
