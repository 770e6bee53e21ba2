"""The model of gate, stop, send, look-up, cancel and a new run: no state breaks a promise, and every fault is found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from agentstop.states import OperationState
from tests.model.explore import AT_ONCE, HANG_GUARD, MODEL, Found, explore, missing, understood
from tests.model.scenes import FAULTS, LONG_SCENES, SCENES, Promise, Scene

TEXT = MODEL.read_text()
BOUNDS = {"NA", "ACTS", "TROUBLES"}
FEWEST = 10_000  # states: a scene with less has lost most of what it should look at


@pytest.fixture(scope="module")
def explored(request: pytest.FixtureRequest) -> Iterator[Mapping[Scene, Future[Found]]]:
    """The scenes of the selected tests, as many at once as there are processors in the smallest machine."""
    given = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = [params["scene"] for params in given if isinstance(params.get("scene"), Scene)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {scene: pool.submit(explore, scene) for scene in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.model
@pytest.mark.skipif(bool(missing()), reason="spin or gcc is not installed")
class TestModel:
    @pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
    def test_no_state_breaks_a_promise(self, explored: Mapping[Scene, Future[Found]], scene: Scene) -> None:
        found = explored[scene].result(HANG_GUARD)
        assert found.broken is None, found.output
        assert found.complete, found.output
        assert found.states > FEWEST

    @pytest.mark.parametrize("scene", FAULTS, ids=lambda scene: scene.name)
    def test_a_fault_breaks_the_promise_that_it_should(
        self, explored: Mapping[Scene, Future[Found]], scene: Scene
    ) -> None:
        found = explored[scene].result(HANG_GUARD)
        assert found.broken is scene.breaks, found.output


def test_every_switch_of_the_model_is_used_and_every_promise_is_broken_by_a_fault() -> None:
    asked = set(re.findall(r"#ifn?def (\w+)", TEXT)) | set(re.findall(r"defined\((\w+)\)", TEXT))
    given = {define.split("=")[0] for scene in (*SCENES, *LONG_SCENES, *FAULTS) for define in scene.defines}
    assert asked - BOUNDS == given - BOUNDS
    assert {fault.breaks for fault in FAULTS} == set(Promise)


def test_the_model_has_the_states_of_an_operation() -> None:
    known = re.findall(r"^#define ([A-Z_]+) \d$", TEXT.split("#define denies")[0], re.MULTILINE)
    assert sorted(name.lower() for name in known if name not in {"NI", *BOUNDS}) == sorted(OperationState)


class TestReading:
    """What spin says is read as what it means, or not at all."""

    SCENE = Scene("any", ())

    def test_a_search_that_was_cut_short_is_not_complete(self) -> None:
        told = "error: max search depth too small\nState-vector 1 byte, depth reached 9, errors: 0\n 5 states, stored\n"
        found = understood(self.SCENE, told, 0.0)
        assert (found.complete, found.broken, found.as_expected) == (False, None, False)

    def test_an_error_that_is_no_promise_is_told(self) -> None:
        told = "pan:1: invalid end state (at depth 3)\n errors: 1\n 5 states, stored\n"
        with pytest.raises(RuntimeError, match="none of the promises"):
            understood(self.SCENE, told, 0.0)

    def test_something_else_is_told(self) -> None:
        with pytest.raises(RuntimeError, match="something else"):
            understood(self.SCENE, "Segmentation fault", 0.0)
