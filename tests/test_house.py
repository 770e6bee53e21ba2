"""What the checkout promises about itself: its lock, its package, its words about commands and places."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ["lock.txt", "bench.txt"]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def locked(lock: str = "lock.txt") -> list[Requirement]:
    text = (ROOT / "requirements" / lock).read_text()
    return [Requirement(line.removesuffix("\\")) for line in text.splitlines() if line[:1].isalnum()]


def wanted() -> list[Requirement]:
    """Everything that pyproject.toml asks for by itself, without its own extras and groups, and without peers."""
    project = PROJECT["project"]
    lists = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *(group for name, group in PROJECT["dependency-groups"].items() if name != "bench"),
    ]
    asked = [Requirement(each) for wishes in lists for each in wishes if isinstance(each, str)]
    return [requirement for requirement in asked if requirement.name != project["name"]]


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_names_no_place(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    assert not re.search(r"://|^\s*-(?!-hash=)|@|/", text, re.MULTILINE)


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_hashes(lock: str) -> None:
    text = (ROOT / "requirements" / lock).read_text()
    assert text.count(" \\\n    --hash=sha256:") >= len(locked(lock))
    assert re.findall(r"^[^\s].*(?<!\\)$", text, re.MULTILINE) == []


def test_the_lock_fulfils_what_the_package_asks_for() -> None:
    pins = locked()
    for requirement in wanted():
        versions = [pin.specifier for pin in pins if canonicalize_name(pin.name) == canonicalize_name(requirement.name)]
        assert versions, f"{requirement} is not locked: make lock"
        for version in versions:
            assert str(version).removeprefix("==") in requirement.specifier, f"{requirement}: locked {version}"


def test_the_peers_are_locked_and_move_no_package_of_the_project() -> None:
    peers = [Requirement(each) for each in PROJECT["dependency-groups"]["bench"]]
    pins = {pin.name: str(pin.specifier) for pin in locked("bench.txt")}
    assert [peer for peer in peers if pins[peer.name].removeprefix("==") not in peer.specifier] == []
    shared = [pin for pin in locked() if pin.name in pins]
    assert shared and [pin for pin in shared if str(pin.specifier) != pins[pin.name]] == []


@pytest.mark.parametrize(("python", "django"), [("3.11", "5.2"), ("3.12", "6.1"), ("3.14", "6.1")])
def test_each_python_gets_the_newest_django_that_it_can_run(python: str, django: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    pins = [pin for pin in locked() if pin.name == "django" and (not pin.marker or pin.marker.evaluate(environment))]
    assert [str(pin.specifier).startswith(f"=={django}.") for pin in pins] == [True]


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"agentstop"}
    assert "agentstop/py.typed" in names
    packaged = [
        path
        for path in ROOT.glob("agentstop/**/*")
        if path.is_file() and path.suffix in {".html", ".css", ".js", ".mo"}
    ]
    assert [path for path in packaged if str(path.relative_to(ROOT)) not in names] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_no_place_of_one_machine(document: Path) -> None:
    assert re.findall(r"(?:/root|/home|/work|/Users|/tmp)/\S*", document.read_text()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_tells_only_of_commands_that_exist(document: Path) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    told = set(re.findall(r"(?:`|^\s*\$? ?)make (\w+)", document.read_text(), re.MULTILINE))
    assert told <= targets


# Of the numbered promises, those about presses, attempts, receipts, evidence, undoing, runs, families, facts, and time.
PROMISES = {4, 5, 6, *range(8, 30), 31, 36, 40, 43, 44}


def test_each_of_these_promises_is_named_by_a_test_that_proves_it() -> None:
    named = {int(number) for doc in _docstrings() for number in re.findall(r"\bR(\d+)\b", doc)}
    assert named >= PROMISES


def _docstrings() -> Iterator[str]:
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield ast.get_docstring(node) or ""
