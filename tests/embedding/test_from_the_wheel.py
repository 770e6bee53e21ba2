"""`docs/embedding.md` followed to the letter: from the built wheel, in an environment and a project of its own.

It needs no network: what agentstop needs is taken from the environment of the tests, agentstop itself from the wheel.
"""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, OpenerDirector, build_opener

import pytest
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.counted import eventually
from tests.docs.pages import ROOT, blocks
from tests.hosts.process import HANG_GUARD, answering
from website.demo.system import free_port

PAGE = ROOT / "docs" / "embedding.md"
APPENDED = ("settings.py", "urls.py")  # what `startproject` has written already
COMMANDS = [
    'pip install "./agentstop[live]"',
    "django-admin startproject mysite .",
    "python manage.py migrate",
    "python manage.py check --database default",
    "python manage.py createsuperuser",
    "python manage.py runserver",
]
LIVE = "mysite.asgi:application"
SUPERUSER = {"DJANGO_SUPERUSER_USERNAME": "ann", "DJANGO_SUPERUSER_PASSWORD": "ann", "DJANGO_SUPERUSER_EMAIL": ""}


@dataclass
class Project:
    """The reader's folder, with a Python that has the wheel."""

    folder: Path
    python: Path

    def run(self, *words: str) -> str:
        command = [str(self.python), *words]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_GUARD,
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def environment(self) -> Mapping[str, str]:
        left_out = {"PYTHONPATH", "DJANGO_SETTINGS_MODULE", "DATABASE_URL"}
        return {name: value for name, value in os.environ.items() if name not in left_out} | SUPERUSER

    def write(self) -> None:
        """The blocks of the page that are files."""
        for block in blocks(PAGE):
            if block.title:
                file = self.folder / block.title
                file.parent.mkdir(parents=True, exist_ok=True)
                before = file.read_text() + "\n" if block.title.endswith(APPENDED) else ""
                file.write_text(before + block.text)

    @contextmanager
    def served(self, *, live: bool = False) -> Iterator[str]:
        """As the page starts it: by `runserver`, which speaks WSGI, or by daphne."""
        port = free_port()
        daphne = ["-m", "daphne", "--ping-interval", "10", "--ping-timeout", "15", "-p", str(port), LIVE]
        words = [str(self.python), *(daphne if live else ["manage.py", "runserver", "--noreload", str(port)])]
        with answering(port, words, self.folder, self.environment, self.folder / "server.log") as address:
            yield address


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    place = tmp_path_factory.mktemp("wheel")
    wheels, environment, folder = place / "wheels", place / "environment", place / "project"
    folder.mkdir()
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=HANG_GUARD)
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    [wheel] = wheels.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=HANG_GUARD)
    [packages] = (environment / "lib").glob("python*/site-packages")
    (packages / "rest.pth").write_text(sysconfig.get_paths()["purelib"])
    return Project(folder, python)


@dataclass
class Person:
    """A browser without a script."""

    address: str
    jar: CookieJar = field(default_factory=CookieJar)

    @property
    def opener(self) -> OpenerDirector:
        return build_opener(HTTPCookieProcessor(self.jar))

    def get(self, path: str) -> str:
        with self.opener.open(self.address + path, timeout=HANG_GUARD) as answer:
            text: str = answer.read().decode()
            return text

    def post(self, path: str, page: str, **values: str) -> str:
        """Send a form that the page has."""
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token is not None, page
        data = urlencode({"csrfmiddlewaretoken": token[1], **values}).encode()
        with self.opener.open(self.address + path, data, timeout=HANG_GUARD) as answer:
            text: str = answer.read().decode()
            return text

    def socket(self, path: str) -> ClientConnection:
        """The websocket that the script of a page opens."""
        cookies = "; ".join(f"{each.name}={each.value}" for each in self.jar)
        address, origin = self.address.replace("http", "ws", 1) + path, Origin(self.address)
        return connect(
            address, origin=origin, additional_headers={"Cookie": cookies}, proxy=None, open_timeout=HANG_GUARD
        )

    def until(self, words: str) -> str:
        """The first page from `/` that says so."""
        pages = [""]

        def says() -> str:
            pages.append(html.unescape(self.get("/")))
            return words if words in pages[-1] else pages[-1]

        eventually(says, words)
        return pages[-1]


def test_from_startproject_to_a_stop_by_the_words_of_the_page(project: Project) -> None:
    project.run("-m", "django", "startproject", "mysite", ".")
    assert str(project.python.parents[1]) in project.run("-c", "import agentstop; print(agentstop.__file__)")
    project.write()
    project.run("manage.py", "migrate")
    project.run("manage.py", "check", "--database", "default", "--fail-level", "WARNING")
    project.run("manage.py", "createsuperuser", "--noinput")
    with project.served() as address:
        ann = Person(address)
        login = ann.get("/")
        ann.post("/admin/login/?next=/", login, username="ann", password="ann", next="/")
        ann.post("/", ann.get("/"))
        page = ann.until("note:0")
        assert "Running since" in page
        assert 'data-agentstop-poll="/agentstop/tasks/1/panel/"' in page
        assert "data-agentstop-socket" not in page
        assets = re.findall(r'(?:src|href)="(/static/agentstop/[^"]+)"', page)
        assert len(assets) == 5  # three sheets, two scripts
        for asset in assets:
            assert ann.get(asset)
        ann.post("/agentstop/tasks/1/stop/", page, run="1", next="/")
        stopped = ann.until("The agent has halted.")
        assert "Stopped by ann" in " ".join(re.sub("<[^>]+>", "", stopped).split())
        assert "<title>Sixty notes · My site</title>" in " ".join(ann.get("/agentstop/tasks/1/").split())
    with project.served(live=True) as address:
        ann = Person(address)
        ann.post("/admin/login/?next=/", ann.get("/"), username="ann", password="ann", next="/")
        assert 'data-agentstop-socket="/ws/agentstop/tasks/1/' in html.unescape(ann.get("/"))
        with ann.socket("/ws/agentstop/tasks/1/") as socket:
            assert "agentstop-task-1" in str(socket.recv(HANG_GUARD))


def test_no_command_of_the_page_is_left_out() -> None:
    """All that a reader types is what the test above does: its Python has the wheel before."""
    told = [line for block in blocks(PAGE) if block.language == "sh" for line in block.text.splitlines()]
    assert told == COMMANDS and f"\n{LIVE}`" in PAGE.read_text()


def test_the_wheel_brings_what_pages_need_and_no_tests(project: Project) -> None:
    [packages] = project.python.parents[1].glob("lib/python*/site-packages")
    brought = {str(file.relative_to(packages)) for file in packages.rglob("*") if file.is_file()}
    for needed in ("templates/agentstop/panel.html", "static/agentstop/panel.js", "locale/de/LC_MESSAGES/django.mo"):
        assert f"agentstop/{needed}" in brought
    assert not [file for file in brought if file.startswith(("tests/", "website/")) or "vendor" in file]
