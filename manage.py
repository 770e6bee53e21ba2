#!/usr/bin/env python3
"""Django's command line for the web application around agentstop."""

import os
import sys

OLDEST = (3, 11)


def main() -> int:
    if sys.version_info < OLDEST:
        found = "%d.%d" % sys.version_info[:2]  # noqa: UP031  an old Python must be able to read this line
        sys.stderr.write("This needs Python 3.11 or newer, and this is Python " + found + ".\n")
        return 1
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "website.settings")
    try:
        if sys.argv[1:2] == ["demo"]:
            from website.demo.program import main as demo  # before any settings are read: it names their folder

            return demo(sys.argv[2:])
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.stderr.write(
            "Django is not installed for this Python. Type make demo, which makes .venv with all it needs.\n"
        )
        return 1
    execute_from_command_line(sys.argv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
