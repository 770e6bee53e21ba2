"""`manage.py demo --check`: the running system, driven as by a browser, and judged by the provider's own ledger."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

import django

from website.demo.system import System


def keeps(system: System, say: Callable[[str], None]) -> int:
    """Show every promise, one line each; the exit code is 1 where one is broken."""
    say("Starting …")
    with system, ExitStack() as open_things:
        os.environ.update(system.environment)
        django.setup()  # only now: it reads where the system is
        from website.demo.promises import audience, gating, providers, stopping, workers
        from website.demo.promises.scenes import perform, scenes_of
        from website.demo.promises.stage import Stage

        stage = Stage(system, open_things)
        scenes = [scene for each in (stopping, gating, providers, audience, workers) for scene in scenes_of(each)]
        broken = perform(scenes, stage, say)
        if broken:
            for child in system.children.values():
                say(f"\nThe last lines of the {child.name}:\n" + "\n".join(child.tail))
    promises = sum(len(scene.promises) for scene in scenes)
    say(f"\n{promises - broken} of {promises} kept." if broken else f"\nAll {promises} kept.")
    return 1 if broken else 0
