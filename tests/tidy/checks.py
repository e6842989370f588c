"""House rules that neither ruff, mypy nor import-linter can state: each check yields one line per finding.

A check looks at one source at a time, so that tests can hand it a small bad sample and see it fail.
"""

from __future__ import annotations

import ast
import io
import posixpath
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

FILE_LINES_MAX = 700  # a smell, not a law: what belongs together stays together
FUNCTION_LINES_MAX = 60
TEST_NAME_MAX = 80

# As a part of a module, class or function name these say nothing about the thing.
EMPTY_NAME_PARTS = frozenset({"manager", "helper", "helpers", "util", "utils", "misc", "common", "stuff"})
# As a whole name they say nothing; as a part they may (`data_dir`).
EMPTY_NAMES = frozenset({"data", "info", "process"})
ABBREVIATIONS = frozenset({"hw", "leo", "tp"})

# Calls that give the same result whatever order they are fed in.
ORDER_FREE_CALLS = frozenset({"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
# Calls that let the order of what they are fed out into the open.
ORDERED_CALLS = frozenset({"dict", "enumerate", "filter", "iter", "list", "map", "reversed", "tuple", "zip"})
SET_TYPES = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"})

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = FunctionNode | ast.ClassDef | ast.Module


@dataclass(frozen=True)
class Source:
    """One file: its path within the repository, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    def at(self, node: ast.AST, words: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {words}"

    def functions(self) -> Iterator[FunctionNode]:
        for node in ast.walk(self.tree):
            if isinstance(node, FunctionNode):
                yield node


# Programs, packets and nodes are 'it'; what is meant by 'whoever' and 'somebody' has a name.
_PARTIES = (
    "those|others|ones|nodes?|brokers?|replicas?|followers?|leaders?|voters?|clients?|consumers?|producers?|members?"
)
PRONOUNS = re.compile(
    rf"\b(he|his|him|himself|whoever|(?:no|some|any|every)body|(?:{_PARTIES}) who)\b",
    re.IGNORECASE,
)
# 'Told' has several meanings: a response, a report, an argument. Prose says which.
_TOLD = re.compile(r"\b(?:un)?told\b", re.IGNORECASE)


def pronoun_for_a_program(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := PRONOUNS.search(line):
            yield f"{source.path}:{number}: '{found[1]}': name the program, client or node"


def told_in_prose(source: Source) -> Iterator[str]:
    """In a page, in comments, docstrings and what users read; not in code, nor in what stands between backticks."""
    for number, words in _prose(source):
        if _TOLD.search(re.sub(r"`[^`]*`", "", words)):
            yield f"{source.path}:{number}: 'told': was it sent, answered, reported or given?"


def _prose(source: Source) -> Iterator[tuple[int, str]]:
    if not source.path.endswith(".py"):
        yield from enumerate(source.text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def long_file(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield f"{source.path}:{FILE_LINES_MAX}: {lines} lines"


def long_function(source: Source) -> Iterator[str]:
    for function in source.functions():
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield source.at(function, f"{function.name} has {lines} lines")


def long_test_name(source: Source) -> Iterator[str]:
    """The name of a test says what holds; what needs more words is its docstring."""
    for function in source.functions():
        if function.name.startswith("test_") and len(function.name) > TEST_NAME_MAX:
            yield source.at(function, f"{function.name}: shorter, and the whole sentence as its docstring")


def missing_docstring(source: Source) -> Iterator[str]:
    if source.text.strip() and ast.get_docstring(source.tree) is None:
        yield f"{source.path}:1: no module docstring"


def empty_name(source: Source) -> Iterator[str]:
    """Names of modules, classes and functions that would fit anything."""
    path = PurePosixPath(source.path)
    for part in (*path.parts[:-1], path.stem):
        if _says_nothing(part):
            yield f"{source.path}:1: the module name '{part}'"
    for node in ast.walk(source.tree):
        if isinstance(node, FunctionNode | ast.ClassDef) and _says_nothing(node.name):
            yield source.at(node, f"the name '{node.name}'")


def _says_nothing(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_").split("_")
    return "_".join(words) in EMPTY_NAMES or not EMPTY_NAME_PARTS.isdisjoint(words)


def abbreviated_name(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        names: list[str] = []
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                names = [name]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
        for name in names:
            if not ABBREVIATIONS.isdisjoint(name.lower().split("_")):
                yield source.at(node, f"'{name}': spell it out")


def print_call(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield source.at(node, "print")


def swallowed_error(source: Source) -> Iterator[str]:
    """`except Exception: pass` and its kin. A named, expected exception may be passed over."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler) or not _says_no_more(node.body):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        for kind in caught:
            if kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"}):
                yield source.at(node, "an error is swallowed")
                break


def _says_no_more(body: list[ast.stmt]) -> bool:
    """Only pass, continue, `...` or a docstring."""
    return all(
        isinstance(line, ast.Pass | ast.Continue)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        for line in body
    )


def sleep_call(source: Source) -> Iterator[str]:
    """Any sleep of some time; `asyncio.sleep(0)`, which only lets others run, is none."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and _last_name(node.func) == "sleep":
            match node.args:
                case [ast.Constant(value=0)]:
                    continue
            yield source.at(node, "sleep")


def patching(source: Source) -> Iterator[str]:
    """Mocks and patches: a fake behind a door says what it stands for, a patch hides what it replaced."""
    for node in ast.walk(source.tree):
        match node:
            case ast.ImportFrom(module=("unittest" | "unittest.mock"), names=names):
                if node.module == "unittest.mock" or any(name.name == "mock" for name in names):
                    yield source.at(node, "unittest.mock")
            case ast.Import(names=names) if any(name.name == "unittest.mock" for name in names):
                yield source.at(node, "unittest.mock")
            case ast.Attribute(value=ast.Name(id="monkeypatch"), attr=("setattr" | "setitem" | "delattr")):
                yield source.at(node, f"monkeypatch.{node.attr}")


def not_deterministic(source: Source) -> Iterator[str]:
    """What the core may not do and imports cannot tell: wait, open a file, or ask Python for something random."""
    hash_methods = {f for f in source.functions() if f.name == "__hash__"}
    exempt = {id(node) for method in hash_methods for node in ast.walk(method)}
    for node in ast.walk(source.tree):
        match node:
            case ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield source.at(node, "waits")
            case ast.AsyncFunctionDef() if not _says_no_more(node.body):
                yield source.at(node, f"async def {node.name}")
            case ast.Call(func=ast.Name(id=("open" | "hash" | "id" | "input") as name)) if id(node) not in exempt:
                yield source.at(node, f"{name}(): another run may give another answer")
            case ast.Call(func=function) if _last_name(function) in {"uuid1", "uuid4", "urandom"}:
                yield source.at(node, "chance: take it through the Chance door")


def _last_name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def iterated_set(source: Source) -> Iterator[str]:
    """Places where the order of a set can show: it differs from run to run, so a history could not be repeated."""
    attributes = _set_attributes(source.tree)
    for scope, names in _scopes(source.tree):
        yield from _ordered_uses(source, scope, names, attributes)


def _scopes(tree: ast.Module) -> Iterator[tuple[ScopeNode, set[str]]]:
    """Each function, class body and the module, with the names that hold a set there."""
    module_names = _set_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ScopeNode):
            yield node, module_names | _set_names(node)


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions and classes inside it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, FunctionNode | ast.ClassDef):
            yield from _own_nodes(child)


def _set_names(scope: ScopeNode) -> set[str]:
    names: set[str] = set()
    if isinstance(scope, FunctionNode):
        every_arg = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
        names |= {arg.arg for arg in every_arg if _is_set_type(arg.annotation)}
    for node in _own_nodes(scope):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if _is_set_type(annotation):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_set(value, names, set()):
                names.add(name)
    return names


def _set_attributes(tree: ast.Module) -> set[str]:
    """Attributes that hold a set in some class of this module: `self.x: set[int]`, `self.x = set()`, `x: set[int]`."""
    attributes: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=annotation) if _is_set_type(annotation):
                attributes.add(name)
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _is_set(value, set(), set()):
                attributes.add(name)
            case ast.ClassDef(body=body):
                for line in body:
                    match line:
                        case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if _is_set_type(kind):
                            attributes.add(name)
    return attributes


def _is_set_type(annotation: ast.expr | None) -> bool:
    match annotation:
        case ast.Subscript(value=value):
            return _is_set_type(value)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_set_type(left) or _is_set_type(right)
        case ast.Name() | ast.Attribute():
            return _last_name(annotation) in SET_TYPES
    return False


def _is_set(node: ast.expr, names: set[str], attributes: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=("set" | "frozenset"))):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=("union" | "intersection" | "difference" | "copy"))):
            return _is_set(value, names, attributes)
        case ast.BinOp(left=left, op=(ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()), right=right):
            return _is_set(left, names, attributes) or _is_set(right, names, attributes)
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=name):
            return name in attributes
    return False


def _ordered_uses(source: Source, scope: ScopeNode, names: set[str], attributes: set[str]) -> Iterator[str]:
    own = list(_own_nodes(scope))
    order_free = {
        id(argument)
        for node in own
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ORDER_FREE_CALLS
        for argument in node.args
    }
    for node in own:
        iterated: list[ast.expr] = []
        match node:
            case ast.For(iter=iterable):
                iterated = [iterable]
            case ast.ListComp(generators=generators) | ast.GeneratorExp(generators=generators):
                iterated = [] if id(node) in order_free else [generator.iter for generator in generators]
            case ast.DictComp(generators=generators):
                iterated = [generator.iter for generator in generators]
            case ast.Starred(value=value):
                iterated = [value]
            case ast.Call(func=ast.Name(id=name), args=arguments) if (
                name in ORDERED_CALLS and id(node) not in order_free
            ):
                iterated = arguments
            case ast.Call(func=ast.Attribute(value=value, attr="pop"), args=[]):
                iterated = [value]
            case ast.Call(func=ast.Attribute(attr=("join" | "extend")), args=arguments):
                iterated = arguments
        for expression in iterated:
            if _is_set(expression, names, attributes):
                yield source.at(
                    node, f"the order of the set '{ast.unparse(expression)}' shows: sort it, or keep a dict"
                )


# Written in pieces, so that this file does not find itself.
_MACHINE_PATH = re.compile(r"(?<![\w.$}\]-])/(?:work|root|home)" + r"/")
_REGISTRY = re.compile(
    "|".join(
        (
            r"\bregistry\." + r"(?:npmjs|yarnpkg)\b",
            r"\b(?:files\.)?python" + r"hosted\.org",
            r"https?://pypi" + r"\.",
            r"\brepo1?\.maven" + r"\.",
            r"--(?:extra-)?index" + r"-url[ =]+\S*://",
            r'"resolved"' + r":\s*\"http",
            r"\b(?:artifactory|nexus|devpi)" + r"[.:/]",
        )
    )
)


def machine_path(source: Source) -> Iterator[str]:
    """A path that exists on one machine only, or the address of a package registry: configuration, not code."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for pattern, words in ((_MACHINE_PATH, "a path of one machine"), (_REGISTRY, "a registry address")):
            if pattern.search(line):
                yield f"{source.path}:{number}: {words}"


def untested_module(source: Source, test_paths: frozenset[str]) -> Iterator[str]:
    """A module that does something and has no test file: core/log/index.py wants tests/unit/core/log/test_index.py."""
    path = PurePosixPath(source.path)
    if path.name == "__init__.py" or not any(_does_something(function) for function in source.functions()):
        return
    wanted = PurePosixPath("tests/unit", *path.parts[1:-1], f"test_{path.name}")
    if str(wanted) not in test_paths:
        yield f"{source.path}:1: no {wanted}"


def _does_something(function: FunctionNode) -> bool:
    """Not a protocol's method, and not `__str__` or its like on a plain value."""
    return not _says_no_more(function.body) and not function.name.startswith("__")


_REQUEST_IN = {"handle": "request", "start": "frame"}  # what dispatch gives a module first


def _first_argument(function: FunctionNode) -> str | None:
    return function.args.args[0].arg if function.args.args else None


def unlisted_handler(source: Source, listed: frozenset[str]) -> Iterator[str]:
    """A module that answers a request and is not in the table: nobody could reach it."""
    functions = [node for node in source.tree.body if isinstance(node, FunctionNode)]
    answers = any(_first_argument(node) == _REQUEST_IN.get(node.name, ()) for node in functions)
    if answers and PurePosixPath(source.path).stem not in listed:
        yield f"{source.path}:1: answers a request that the table does not list"


def broken_link(source: Source, files: Mapping[str, str]) -> Iterator[str]:
    """A link in a page to a file, folder or heading that is not there. `files` has the text of the pages among them."""
    here = PurePosixPath(source.path).parent
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents}
    for number, line in enumerate(source.text.splitlines(), 1):
        for target, anchor in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", line):
            path = posixpath.normpath(here / target) if target else source.path
            if path not in files and path not in folders:
                yield f"{source.path}:{number}: no {target}"
            elif anchor and path in files and path.endswith(".md") and anchor[1:] not in anchors(files[path]):
                yield f"{source.path}:{number}: no heading {anchor} in {path}"


def anchors(page: str) -> set[str]:
    """What a link may name in a page: its headings as GitHub and the site write them."""
    found: set[str] = set()
    text = re.sub(r"^(```|~~~).*?^\1", "", page, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ +(.*)$", text, re.MULTILINE):
        slug = (
            re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).strip().replace(" ", "-")
        )
        found.add(
            slug if slug not in found else next(f"{slug}-{n}" for n in range(1, 99) if f"{slug}-{n}" not in found)
        )
    return found
