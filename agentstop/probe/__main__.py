"""`python -m agentstop.probe mcp URL_OR_COMMAND --tool NAME --arguments JSON`. It says what it will do, and does it."""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

FOUND, WRONG, UNABLE, VAIN = 0, 1, 2, 3
DESCRIPTION = """Find out what cancelling a tool of an MCP server really does, by calling it and cancelling it.
Exit status: 0 something was learned of a cancel, 1 something harms others, 2 the probe could not begin, 3 nothing was
learned: the undisturbed call failed or was too quick, or no question could be answered."""


def main(argv: list[str] | None = None) -> int:
    """The exit status."""
    given = _parser().parse_args(argv)
    try:
        arguments = json.loads(given.arguments)
        if not isinstance(arguments, dict):
            raise ValueError("not an object")
    except ValueError as error:
        return _unable(f"--arguments is no JSON object ({error}). Pass for example '{{\"seconds\": 3}}'.")
    try:
        from agentstop.probe.mcp import CALLS, probe
        from agentstop.probe.trial import Subject
        from agentstop.providers.mcp import McpProvider
    except Exception as error:
        return _unable(str(error))
    way: dict[str, Any] = {"url": given.server} if "://" in given.server else {"command": shlex.split(given.server)}
    try:
        provider = McpProvider(**way, revision=given.revision)
    except Exception as error:
        return _unable(str(error))
    print(  # noqa: T201  speaks to a person in a terminal
        f"Calls {given.tool} with {json.dumps(arguments)} at most {CALLS} times, and cancels most of them. "
        f"Each may have its effect. It calls no other tool.",
        file=sys.stderr,
    )
    options = {**provider.options, "tasks": True}
    subject = Subject(provider.server, options, given.tool, arguments, given.effects, given.longest)
    try:
        report = asyncio.run(probe(subject, provider.describe()))
    except (Exception, asyncio.CancelledError) as error:
        return _unable(f"The server could not be probed: {type(error).__name__}: {error}"[:500])
    print(report.as_text())  # noqa: T201
    for path, text in ((given.json, report.as_json()), (given.junit, report.as_junit())):
        if path:
            Path(path).write_text(text)
    return WRONG if report.wrong else FOUND if report.learned else VAIN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agentstop.probe", description=DESCRIPTION)
    parser.add_argument("kind", choices=["mcp"])
    parser.add_argument("server", help="its address, or the command that starts it, as one argument")
    parser.add_argument("--tool", required=True, help="the tool to call; none is picked for you")
    parser.add_argument("--arguments", required=True, help="its arguments, a JSON object; it should take some seconds")
    parser.add_argument("--effects", default="", help="a command whose output changes with each effect")
    parser.add_argument("--revision", choices=["2025-11-25", "2026-07-28"], help="of the protocol; else the newest")
    parser.add_argument("--longest", type=float, default=60.0, help="seconds that one call is waited for")
    parser.add_argument("--json", default="", metavar="FILE")
    parser.add_argument("--junit", default="", metavar="FILE")
    return parser


def _unable(why: str) -> int:
    print(why, file=sys.stderr)  # noqa: T201
    return UNABLE


if __name__ == "__main__":
    sys.exit(main())
