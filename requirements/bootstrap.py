"""Makes `.venv` what `requirements/lock.txt` says, or tells in one sentence why it cannot.

Needs no packages and no new syntax, so that an old Python can be told that it is too old.
"""

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "lock.txt"
VENV = ROOT / ".venv"
READY = VENV / "ready"  # tells what was installed last
BEGUN = VENV / "begun"  # there while packages are being installed: found later, it tells of an interruption

NO_NETWORK = ("name resolution", "not known", "timed out", "Max retries", "unreachable", "Connection refused")


class Problem(Exception):
    """What is wrong and what to do, for a person at a terminal."""


def main() -> int:
    """Exit status 0 once `.venv` is right."""
    try:
        check_python()
        with (ROOT / "pyproject.toml").open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # two terminals may start at once
            if BEGUN.exists() or not READY.exists() or READY.read_text() != place() + contents():
                build()
    except Problem as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted while installing; the next run starts over.", file=sys.stderr)
        return 130
    return 0


def place() -> str:
    """What a virtual environment is bound to: this Python, this folder."""
    return f"Python {platform.python_version()} in {ROOT}\n"


def contents() -> str:
    return f"lock {hashlib.sha256(LOCK.read_bytes()).hexdigest()}\n"


def build() -> None:
    check_folder()
    if reusable():
        BEGUN.touch()
    else:
        make_environment()
    install()
    READY.write_text(place() + contents())
    BEGUN.unlink()


def reusable() -> bool:
    """A whole environment of this place takes new packages in; after an interruption nobody knows what is whole."""
    python = VENV / "bin" / "python"
    if BEGUN.exists() or not python.exists():
        return False
    if READY.exists():
        return READY.read_text().startswith(place())
    asked = subprocess.run([python, "--version"], stdout=subprocess.PIPE, text=True, check=False)
    return asked.stdout.strip() == "Python " + platform.python_version()


def make_environment() -> None:
    if importlib.util.find_spec("ensurepip") is None:
        raise Problem(
            "This Python cannot make virtual environments (ensurepip is missing). "
            "On Debian and Ubuntu: apt-get install python3-venv"
        )
    say(f"Making .venv with Python {platform.python_version()}.")
    shutil.rmtree(VENV, ignore_errors=True)
    VENV.mkdir()
    BEGUN.touch()
    venv.EnvBuilder(symlinks=True, with_pip=True).create(VENV)


def install() -> None:
    """Every package of the lock, checked by its hash; and this checkout itself by its path."""
    say("Installing the packages of requirements/lock.txt (once, up to a minute).")
    python = VENV / "bin" / "python"
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    command += ["--retries", "2", "--require-hashes", "--requirement", str(LOCK)]
    pip = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if pip.returncode:
        raise Problem(failure(pip.stdout))
    for packages in VENV.glob("lib/python*/site-packages"):
        (packages / "agentstop-checkout.pth").write_text(f"{ROOT}\n")


def failure(output: str) -> str:
    if any(sign in output for sign in NO_NETWORK):
        return "The packages could not be fetched. Once, this needs a network or a package mirror that pip knows."
    last = "\n".join(output.strip().splitlines()[-4:])
    return f"{last}\nInstalling the packages of requirements/lock.txt failed; the lines above are pip's."


def check_python() -> None:
    if sys.version_info >= OLDEST:
        return
    newer = next((name for name in (f"python3.{minor}" for minor in range(14, 10, -1)) if works(name)), "python3.11")
    raise Problem(
        f"This needs Python 3.11 or newer, and {sys.executable} is Python {platform.python_version()}. "
        f"Name another one, as in: make demo PYTHON={newer}"
    )


def works(name: str) -> bool:
    """A name on the PATH may be a mere stand-in that finds no Python behind it."""
    if shutil.which(name) is None:
        return False
    return subprocess.call([name, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def check_folder() -> None:
    if not os.access(VENV if VENV.exists() else ROOT, os.W_OK):
        raise Problem(f"{ROOT} is read-only, so .venv cannot be made there. Copy the checkout to a folder of yours.")


def say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
