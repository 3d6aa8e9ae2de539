"""The shape of the project: who may import whom, how long things are, what lies at the top level.

Each rule is proved twice: it holds for the source, and it fails on a planted violation.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import source
from tests.support.source import ROOT, Module

LONGEST_FUNCTION = 40
LONGEST_MODULE = 250

FLASK = {"click", "flask", "flask_sqlalchemy", "jinja2", "markupsafe", "werkzeug"}
ANYTHING = {"*"}
#: Room: what its modules may import beside the standard library, `errors` and themselves.
#: Names of the package's own rooms may be narrowed to a part (`db.store`).
MAY_IMPORT: dict[str, set[str]] = {
    "": {"core", "crypto", "outbox", "producer"},  # the package itself: the public names
    "outbox": {"config", "crypto", "producer"},  # Outbox.from_env
    "errors": set(),
    "assets": set(),
    "config": {"core"},
    "core": {"idna"},
    "crypto": {"cryptography"},
    "db": {"core", "ids", "sqlalchemy", "alembic"},
    "producer": {"core", "crypto", "db.store", "ids", "wakeup", "sqlalchemy"},
    "ids": {"uuid_utils"},
    "wakeup": {"sqlalchemy"},
    "metrics": {"core", "db", "sqlalchemy", "prometheus_client"},
    "delivery": {"core", "crypto", "db", "metrics", "wakeup", "sqlalchemy", "jinja2"},
    "web": {"core", "db", "config", "ids", "assets", "metrics", "sqlalchemy", "cryptography", *FLASK},
    "demo": {"core", "crypto", "db", "producer", "config", "sqlalchemy"},
    "assemble": ANYTHING,
    "cli": ANYTHING,
}
#: Counted over any number of steps, but not through assemble, which is there to join what is apart.
NEVER: dict[str, set[str]] = {
    "core": {
        "asyncio",
        "http",
        "os",
        "secrets",
        "smtplib",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "threading",
    },
    "producer": {
        "flask",
        "smtplib",
        "socket",
        "ssl",
        "outbox_admin.config",
        "outbox_admin.delivery",
        "outbox_admin.web",
    },
    "delivery": {"flask", "smtplib", "outbox_admin.web"},
    "web": {
        "smtplib",
        "socket",
        "ssl",
        "outbox_admin.crypto",
        "outbox_admin.delivery",
        "outbox_admin.producer",
    },
}
#: The one place that may name each of these.
ASSEMBLE = "outbox_admin.assemble"
IMPORTERS_OF_ASSEMBLE = {"outbox_admin.cli", "outbox_admin.delivery.host"}
ONLY_IN: dict[str, tuple[str, ...]] = {
    "print": (),
    "time.sleep": (),
    "datetime.now": ("assemble", "db.types"),
    "datetime.utcnow": (),
    "os.environ": ("config",),
    "os.getenv": ("config",),
    "sa.update": ("db.store", "db.migrations"),
    # The gate asks a session where such a statement would go, and executes none.
    "sa.insert": ("db.store", "db.migrations", "producer.gate"),
    "sa.delete": ("db.store", "db.migrations"),
}
TOP_LEVEL = {
    *("pyproject.toml", "outbox_admin", "templates", "static", "tests", "wsgi.py"),
    *("README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md", "CONTRIBUTING.md", "Makefile", "docs"),
    *("dev.py", "hatch_build.py", "requirements.lock"),
}

KNOWN = source.modules()


def room(name: str) -> str:
    """`core` for outbox_admin.core.message; empty for the package itself."""
    return name.split(".")[1] if "." in name else ""


def own_part(name: str) -> str:
    return name.partition(".")[2]


def is_within(name: str, parent: str) -> bool:
    return name == parent or name.startswith(f"{parent}.")


def allowed(module: Module, imported: str) -> bool:
    here = room(module.name)
    permitted = MAY_IMPORT[here]
    if permitted == ANYTHING or imported.split(".", maxsplit=1)[0] in sys.stdlib_module_names:
        return True
    if not is_within(imported, source.PACKAGE):
        return imported.split(".", maxsplit=1)[0] in permitted
    part = own_part(imported)
    if part == "assemble":
        return may_import_assemble(module.name)
    return any(is_within(part, parent) for parent in {here, "errors", *permitted} if parent)


def may_import_assemble(name: str) -> bool:
    return any(is_within(name, importer) for importer in IMPORTERS_OF_ASSEMBLE)


def forbidden_imports(known: dict[str, Module]) -> list[str]:
    return [
        f"{module.name} imports {imported}"
        for module in known.values()
        for imported in sorted(source.imports(module, known))
        if not allowed(module, imported)
    ]


def reached_from(start: str, known: dict[str, Module]) -> dict[str, str]:
    """Everything that importing `start` brings, each with the module that names it."""
    reached: dict[str, str] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        for imported in source.imports(known[name], known):
            for part in source.with_parents(imported):
                if part not in reached and part != ASSEMBLE:
                    reached[part] = name
                    waiting.extend([part] if part in known else [])
    return reached


def never_reached(known: dict[str, Module]) -> Iterator[str]:
    for name in known:
        banned = NEVER.get(room(name), set())
        for reached, by in reached_from(name, known).items() if banned else ():
            if any(is_within(reached, ban) for ban in banned) and not may_import_assemble(name):
                yield f"{name} reaches {reached} (named by {by})"


def misplaced_names(known: dict[str, Module]) -> Iterator[str]:
    for module in known.values():
        for node in ast.walk(module.tree):
            named = source.dotted(node) if isinstance(node, ast.Attribute | ast.Name) else ""
            homes = ONLY_IN.get(named)
            if homes is not None and not any(is_within(own_part(module.name), home) for home in homes):
                yield f"{module.name}:{node.lineno} uses {named}"


def planted(folder: Path, **files: str) -> dict[str, Module]:
    """A package with the given modules; `web__pages` is web/pages.py."""
    for name, text in files.items():
        file = (folder / source.PACKAGE).joinpath(*name.split("__")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return source.modules(folder)


def test_every_room_has_a_line_in_the_table() -> None:
    assert {room(name) for name in KNOWN} <= set(MAY_IMPORT)


def test_rooms_import_only_what_the_table_allows() -> None:
    assert forbidden_imports(KNOWN) == []


def test_what_must_never_be_reached_is_not_reached_on_any_way() -> None:
    assert list(never_reached(KNOWN)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core__message", "import sqlalchemy"),
        ("core__message", "from outbox_admin.db import schema"),
        ("crypto__keyring", "from outbox_admin.core import message"),
        ("db__schema", "from outbox_admin.crypto import envelope"),
        ("producer__outbox", "from outbox_admin.db.reads import counts"),
        ("producer__outbox", "from outbox_admin.config import Settings"),
        ("producer__outbox", "from outbox_admin.db import schema"),
        ("delivery__worker", "from outbox_admin import assemble"),
        ("web__pages", "def page():\n    import outbox_admin.crypto.keyring"),
        ("web__pages", "from outbox_admin.assemble import console"),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, name: str, text: str) -> None:
    empty = dict.fromkeys(("db__schema", "db__reads__counts", "core__message", "config", "assemble"), "")
    assert len(forbidden_imports(planted(tmp_path, **(empty | {name: text})))) == 1


def test_a_way_round_through_another_room_is_found(tmp_path: Path) -> None:
    known = planted(
        tmp_path,
        web__pages="from outbox_admin.db.reads import rows",
        db__reads__rows="from outbox_admin.db import secret",
        db__secret="from outbox_admin.crypto.envelope import open_sealed",
        crypto__envelope="",
    )
    assert any("web.pages reaches outbox_admin.crypto.envelope" in line for line in never_reached(known))


def test_a_way_through_assemble_does_not_count(tmp_path: Path) -> None:
    known = planted(
        tmp_path,
        web__pages="from outbox_admin import assemble",
        assemble="from outbox_admin.crypto import envelope",
        crypto__envelope="",
    )
    assert list(never_reached(known)) == []


def test_clock_environment_output_and_writes_have_their_places() -> None:
    assert list(misplaced_names(KNOWN)) == []


@pytest.mark.parametrize(
    "text", ["print(1)", "import time\ntime.sleep(1)", "import os\nos.environ['A']", "sa.update(table)"]
)
def test_a_planted_name_is_found(tmp_path: Path, text: str) -> None:
    assert len(list(misplaced_names(planted(tmp_path, web__pages=text)))) == 1


def too_long(known: dict[str, Module]) -> list[str]:
    long = [module for module in known.values() if module.lines > LONGEST_MODULE]
    found = [f"{module.name} has {module.lines} lines" for module in long]
    for module in known.values():
        if not is_within(own_part(module.name), "db.migrations.versions"):
            lengths = source.functions(module)
            found.extend(f"{name} has {lines} lines" for name, lines in lengths if lines > LONGEST_FUNCTION)
    return found


def test_functions_and_modules_stay_short() -> None:
    assert too_long(KNOWN) == []


def test_a_planted_long_function_and_module_are_found(tmp_path: Path) -> None:
    function = "def walk():\n" + "    x = 1\n" * LONGEST_FUNCTION
    assert len(too_long(planted(tmp_path, core__walk=function))) == 1
    assert len(too_long(planted(tmp_path, core__walk="x = 1\n" * (LONGEST_MODULE + 1)))) == 1


def test_every_module_says_what_happens_in_it() -> None:
    silent = [module.name for module in KNOWN.values() if not ast.get_docstring(module.tree)]
    assert silent == []


@pytest.mark.parametrize("script", ["dev.py", "hatch_build.py"])
def test_the_scripts_beside_the_package_stay_short_too(script: str) -> None:
    file = ROOT / script
    module = Module(file.stem, file, ast.parse(file.read_text()), len(file.read_text().splitlines()))
    assert too_long({module.name: module}) == []


def test_the_top_level_holds_only_what_belongs_there() -> None:
    names = {name.split("/")[0] for name in source.committed_files()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL


def test_no_file_of_others_is_committed() -> None:
    foreign = re.compile(r"(^|/)(vendor|node_modules|third_party)/|\.min\.(js|css)$|(^|/)htmx[^/]*\.js$")
    assert [name for name in source.committed_files() if foreign.search(name)] == []


def test_no_path_of_a_certain_machine_is_written_down() -> None:
    machine = re.compile(r"(?<![\w.<])/(?:work|root|home)/\w")
    texts = {name: (ROOT / name).read_text(errors="replace") for name in source.committed_files()}
    assert [name for name, text in texts.items() if machine.search(text)] == []


def test_the_lock_names_no_host_and_checks_every_hash() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text
    pinned = re.findall(r"^[a-z0-9][^\n]*?==[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))


@pytest.mark.parametrize("package", ["cffi", "cryptography", "psycopg-binary", "sqlalchemy"])
def test_the_lock_fits_more_machines_than_the_one_it_was_written_on(package: str) -> None:
    text = (ROOT / "requirements.lock").read_text()
    entry = re.search(rf"^{package}==.*?(?=^[a-z0-9])", text, re.MULTILINE | re.DOTALL)
    assert entry is not None
    assert entry[0].count("--hash=") > 10


def forbidden_in_template(text: str) -> list[str]:
    """What the content security policy would stop in the browser, found before it gets there."""
    rules = {
        "hx-on": r"\shx-on[:\w-]*=",
        "an event attribute": r"\son[a-z]+=",
        "script in hx-vals": r"hx-(vals|headers)=['\"]js:",
        "a trigger filter": r"hx-trigger=\"[^\"]*\[",
        "an inline script": r"<script(?![^>]*\ssrc=)",
        "an inline style": r"<style|\sstyle=",
    }
    return [name for name, rule in rules.items() if re.search(rule, text)]


def test_templates_hold_nothing_that_the_browser_would_refuse() -> None:
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in (ROOT / "templates").rglob("*.html")}
    assert {name: found for name, text in texts.items() if (found := forbidden_in_template(text))} == {}


@pytest.mark.parametrize(
    "text",
    [
        '<p hx-on:click="x()">',
        '<p onclick="x()">',
        "<p hx-vals='js:{a: 1}'>",
        '<p hx-trigger="click[ctrlKey]">',
        "<script>x()</script>",
        '<p style="color: red">',
    ],
)
def test_a_planted_inline_script_or_style_is_found(text: str) -> None:
    assert len(forbidden_in_template(text)) == 1
