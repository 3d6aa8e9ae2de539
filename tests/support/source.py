"""Reads the product's source as syntax trees. Knows no rule; the rules are tests/test_architecture.py."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "outbox_admin"


@dataclass(frozen=True, slots=True)
class Module:
    """`name` is the dotted name; a package's is that of its folder."""

    name: str
    file: Path
    tree: ast.Module
    lines: int

    @property
    def is_package(self) -> bool:
        return self.file.name == "__init__.py"


def modules(root: Path = ROOT, package: str = PACKAGE) -> dict[str, Module]:
    found = {}
    for file in sorted((root / package).rglob("*.py")):
        name = ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        text = file.read_text()
        found[name] = Module(name, file, ast.parse(text), len(text.splitlines()))
    return found


def imports(module: Module, known: dict[str, Module]) -> set[str]:
    """Dotted names of the modules that it imports, anywhere in its text."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name if name in known else node.module for name in inner)
    return found


def with_parents(name: str) -> Iterator[str]:
    """Importing a module runs the packages around it; the outermost one always runs and tells nothing."""
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        yield ".".join(parts[:length])
    if len(parts) == 1:
        yield name


def dotted(node: ast.expr) -> str:
    """`time.sleep` for the attribute of that name; empty for what is no dotted name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def functions(module: Module) -> Iterator[tuple[str, int]]:
    """Name and number of lines of each function, without its decorators."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{module.name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def committed_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    return [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).exists()]
