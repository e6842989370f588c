"""The shape of the source tree in figures, `make shape`: what grew too large, and where. With two folders (two
checkouts) the figures of both stand side by side."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PARAMETERS_MAX = 6
_ANY = re.compile(r"\bAny\b")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def trees(root: Path, folder: str) -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted((root / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield str(path.relative_to(root)), text, ast.parse(text)


def parameter_count(function: FunctionNode) -> int:
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def attribute_count(owner: ast.ClassDef) -> int:
    """What its methods set on self; of a dataclass, its fields."""
    of_self = {
        node.attr
        for node in ast.walk(owner)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name) and node.value.id == "self"
    }  # fmt: skip
    return len(of_self) + sum(isinstance(each, ast.AnnAssign) for each in owner.body)


def local_imports(tree: ast.Module) -> int:
    within = (node for function in ast.walk(tree) if isinstance(function, FunctionNode) for node in ast.walk(function))
    return len({id(node) for node in within if isinstance(node, ast.Import | ast.ImportFrom)})


def figures(root: Path) -> dict[str, str]:
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    constructors: Counter[str] = Counter()
    attributes: Counter[str] = Counter()
    names: Counter[str] = Counter()
    any_lines: Counter[str] = Counter()
    imports: Counter[str] = Counter()
    parameters: Counter[str] = Counter()
    for path, text, tree in trees(root, "chronik"):
        room = path.split("/")[1] if path.count("/") > 1 else "chronik"
        files[room] += 1
        lines[path] = text.count("\n")
        any_lines[room] += sum(bool(_ANY.search(line)) and "import" not in line for line in text.splitlines())
        imports[room] += local_imports(tree)
        for node in ast.walk(tree):
            if isinstance(node, FunctionNode):
                parameters[room] += parameter_count(node) > PARAMETERS_MAX
            elif isinstance(node, ast.ClassDef):
                attributes[node.name] = max(attributes[node.name], attribute_count(node))
                names[node.name] += not node.name.startswith("_")
                made = [each for each in node.body if isinstance(each, FunctionNode) and each.name == "__init__"]
                constructors[node.name] = max([constructors[node.name], *map(parameter_count, made)])
    return {
        "files per folder": ", ".join(f"{name} {count}" for name, count in sorted(files.items())),
        "largest files": largest(lines),
        "largest constructors (parameters)": largest(constructors),
        "most attributes": largest(attributes),
        f"functions with over {PARAMETERS_MAX} parameters": by_room(parameters),
        "lines with Any": by_room(any_lines),
        "local imports": by_room(imports),
        "public class names used more than once": str(sum(count > 1 for count in names.values())),
        "lines of cli/": str(sum(count for path, count in lines.items() if path.startswith("chronik/cli/"))),
        "lines of product": str(lines.total()),
        "lines of tests": str(sum(text.count("\n") for _, text, _ in trees(root, "tests"))),
        "import contracts": str((root / "pyproject.toml").read_text().count("[[tool.importlinter.contracts]]")),
    }


def by_room(counts: Counter[str]) -> str:
    rooms = ", ".join(f"{room} {count}" for room, count in sorted(counts.items()) if count)
    return f"{counts.total()} ({rooms})"


def largest(counts: Counter[str]) -> str:
    return ", ".join(f"{name.removeprefix('chronik/')} {count}" for name, count in counts.most_common(5))


def main() -> None:
    columns = [figures(Path(each)) for each in sys.argv[1:] or ["."]]
    for name in columns[0]:
        sys.stdout.write(f"| {name} | {' | '.join(column[name] for column in columns)} |\n")


if __name__ == "__main__":
    main()
