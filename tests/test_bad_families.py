"""Bad input about families and runs: a clear error that says what is wrong and what to do, and nothing half-written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.utils import timezone

from agentstop import alive
from agentstop.accounts import account
from agentstop.bulk import stop_all
from agentstop.exceptions import BadToken, Denied, Finished, Paused, Refused, Stopped, Superseded, TaskNotFound
from agentstop.lifecycle import create
from agentstop.models import Attempt, Decision, ServingLink, Task
from agentstop.models import Run as RunRow
from agentstop.pause import pause, resume
from agentstop.reports import report
from agentstop.runs import TOKEN_SALT, Run, begin, serve
from agentstop.spawning import ClosesARing
from agentstop.stop import stop
from agentstop.verify import differences
from tests.conftest import HANG_GUARD, InThread
from tests.observed import task_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


def stored() -> list[list[Any]]:
    """Everything that families are made of."""
    models: list[Any] = [Task, RunRow, ServingLink, Decision]
    return [list(model.objects.order_by("pk").values_list()) for model in models]


@pytest.mark.parametrize("many", [False, True], ids=["one", "about an object"])
@pytest.mark.parametrize("verb", [stop, pause, resume, stop_all])
def test_the_policy_of_families_is_nobody_elses(ann: User, verb: Callable[..., Any], many: bool) -> None:
    """A pause by that name would be taken for one that a parent handed down, and never be lifted."""
    run = begin("a task", owner=ann, subject=ann)
    before = stored()
    with pytest.raises(ValueError, match="policy='family' is agentstop's own"):
        verb(ann if many or verb is stop_all else run.task_id, policy="family")
    assert stored() == before
    assert pause(run.task_id, policy="families") and resume(run.task_id, policy="families")


class TestRings:
    @pytest.mark.parametrize("length", [1, 2, 3, 12])
    def test_of_any_length_are_refused_and_leave_nothing(self, ann: User, length: int) -> None:
        """A task that serves itself is a ring of one."""
        runs = [begin("root", owner=ann)]
        for _ in range(length - 1):
            runs.append(begin("child", serves=[runs[-1]]))
        before = stored()
        with pytest.raises(ClosesARing, match=f"Task {runs[0].task_id} cannot serve task {runs[-1].task_id}"):
            serve(runs[0].task_id, runs[-1])
        assert stored() == before
        assert stop(runs[0].task_id, by=ann).descendants == length - 1

    def test_that_begin_would_close_is_refused(self, ann: User) -> None:
        """By begin as well as by serve: the same link is the same ring."""
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        links = ServingLink.objects.count()
        for serves in ([child], [root]):
            with pytest.raises(ClosesARing):
                begin(root.task_id, serves=serves)
        assert ServingLink.objects.count() == links
        assert task_of(root).last_run == 1
        root.check()

    def test_that_two_would_close_from_both_sides_at_once_is_closed_by_neither(
        self, ann: User, in_thread: InThread
    ) -> None:
        for _ in range(5):
            one, other = begin("one", owner=ann), begin("other", owner=ann)
            go = threading.Barrier(2, timeout=HANG_GUARD)

            def link(child: Run, parent: Run, go: threading.Barrier = go) -> bool:
                go.wait()
                try:
                    serve(child.task_id, parent)
                except ClosesARing:
                    return False
                return True

            linked = [in_thread(link, *pair) for pair in ((one, other), (other, one))]
            assert sorted(each.result(HANG_GUARD) for each in linked) == [False, True]


class TestSomebodyElses:
    def test_run_is_served_by_nobody_elses_task(self, ann: User, ben: User) -> None:
        anns, bens = begin("ann's", owner=ann), begin("ben's", owner=ben)
        before = stored()
        for attempt in (
            lambda: serve(bens.task_id, anns),
            lambda: begin("child", owner=ben, serves=[anns]),
            lambda: begin("child", serves=[anns, bens]),
            lambda: begin(bens.task_id, serves=[anns]),
        ):
            with pytest.raises(Denied, match="belongs to somebody else"):
                attempt()
        assert stored() == before

    def test_children_are_not_kept_by_a_run_of_another_task(self, ann: User) -> None:
        one, other = begin("one", owner=ann), begin("other", owner=ann)
        child = begin("child", serves=[other])
        with pytest.raises(ValueError, match=f"keep names task {child.task_id}"):
            begin(one.task_id, keep=[child.task_id])
        assert task_of(one).last_run == 1


def signed(*value: Any) -> str:
    return signing.dumps(list(value), salt=TOKEN_SALT)


ALTERED: dict[str, Callable[[str], str]] = {
    "nothing": lambda token: "",
    "its end is gone": lambda token: token[:-1],
    "one more at its end": lambda token: token + "x",
    "one more at its beginning": lambda token: "x" + token,
    "a part is gone": lambda token: token.replace(":", "", 1),
    "for another purpose": lambda token: signing.dumps([1, 1], salt="another purpose"),
    "with another secret": lambda token: signing.dumps([1, 1], key="another secret", salt=TOKEN_SALT),
    "NUL": lambda token: "\x00",
    "long and foreign": lambda token: "é" * 10_000,
}


def renumbered(token: str) -> str:
    """The same signature under the number of another run."""
    other = signed(*signing.loads(token, salt=TOKEN_SALT)[:1], 2)
    return other.split(":", 1)[0] + ":" + token.split(":", 1)[1]


ALTERED["another run's number"] = renumbered


class TestTokens:
    @pytest.mark.parametrize("change", ALTERED.values(), ids=list(ALTERED))
    def test_that_were_altered_are_refused(self, change: Callable[[str], str]) -> None:
        run = begin("a task")
        with pytest.raises(BadToken, match=r"Pass the run\.token"):
            Run.from_token(change(run.token))

    @pytest.mark.parametrize("value", [(1,), (1, 2, 3), ("1", 1), (1, None), (1.5, 1), (True, 1), (-1, 1), (1, 0)])
    def test_that_name_no_run_are_refused_though_they_are_signed(self, value: tuple[Any, ...]) -> None:
        with pytest.raises(BadToken):
            Run.from_token(signed(*value))

    def test_of_another_task_are_refused_where_one_is_expected(self) -> None:
        one, other = begin("one"), begin("other")
        assert Run.from_token(one.token, task=one.task_id) == one
        with pytest.raises(BadToken, match=f"another task than {other.task_id}"):
            Run.from_token(one.token, task=other.task_id)

    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            (lambda run: stop(run.task_id), Stopped),
            (lambda run: begin(run.task_id), Superseded),
            (lambda run: run.finish(), Finished),
        ],
        ids=["stop", "begin", "finish"],
    )
    def test_of_a_run_that_is_over_open_nothing(self, end: Callable[[Run], object], reason: type[Refused]) -> None:
        """R27: they have no end of their own; the gate says what they are worth."""
        run = begin("a task")
        end(run)
        late = Run.from_token(run.token)
        with pytest.raises(reason):
            late.check()
        outcome = late.call("work", connector="tools", key="k", send=lambda op: "sent")
        assert outcome.ignored and type(outcome.refusal) is reason
        assert not Attempt.objects.exists()

    @pytest.mark.parametrize("number", [2, 10**6])
    def test_with_a_run_number_that_never_was_open_nothing(self, number: int) -> None:
        run = begin("a task")
        late = Run.from_token(signed(run.task_id, number))
        with pytest.raises(Refused):
            late.check()
        assert late.call("work", connector="tools", key="k", send=lambda op: "sent").ignored
        assert not Attempt.objects.exists()
        run.check()

    def test_of_a_task_that_never_was_say_so(self) -> None:
        with pytest.raises(TaskNotFound, match="There is no task 999999"):
            Run.from_token(signed(999_999, 1)).check()


MANY = 10_000
HUGE = 300_000  # more than a statement of either database may name one by one


class TestTenThousandAndMore:
    def test_children_that_are_stopped_in_one_press_are_all_counted(self, ann: User) -> None:
        root = begin("root", owner=ann)
        first = task_of(begin("child", serves=[root]))
        copies = (
            Task(title="child", owner=ann, family=first.family, state_since=first.state_since,
                 created_at=first.created_at)
            for _ in range(MANY - 1)
        )  # fmt: skip
        tasks = Task.objects.bulk_create(copies, batch_size=500)
        links = (ServingLink(child=task, parent_id=root.task_id, parent_run=1) for task in tasks)
        ServingLink.objects.bulk_create(links, batch_size=500)
        assert stop(root.task_id, by=ann).descendants == MANY
        assert not Task.objects.filter(state="active").exists()

    @pytest.mark.parametrize("how", ["serves", "keep"])
    def test_names_in_one_call_that_are_not_there_are_one_clear_error(self, ann: User, how: str) -> None:
        root = begin("root", owner=ann)
        before = stored()
        with pytest.raises((TaskNotFound, ValueError), match=r"task \d+"):
            if how == "serves":
                begin("child", owner=ann, serves=[root, *(Run(10**6 + number, 1) for number in range(HUGE))])
            else:
                begin(root.task_id, keep=range(10**6, 10**6 + HUGE))
        assert stored() == before
        root.check()

    def test_times_the_same_run_is_one_link(self, ann: User) -> None:
        root = begin("root", owner=ann)
        child = begin("child", serves=[root] * MANY)
        assert ServingLink.objects.filter(child=child.task_id).count() == 1


WRONG: dict[str, Callable[[Run], Any]] = {
    "a bare run": lambda run: run,
    "a text": lambda run: "12",
    "a number": lambda run: 12,
    "nothing": lambda run: None,
    "a token": lambda run: [run.token],
    "a task": lambda run: [task_of(run)],
}


class TestWhatIsNoListOfRuns:
    @pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
    def test_is_named_and_nothing_is_begun(self, ann: User, wrong: Callable[[Run], Any]) -> None:
        root = begin("root", owner=ann)
        before = stored()
        with pytest.raises(ValueError, match=r"serves (takes a list of runs|names .* which is no run)"):
            begin("child", serves=wrong(root))
        with pytest.raises(ValueError, match=r"keep (takes a list of task ids|names .* which is no id of a task)"):
            begin(root.task_id, keep=wrong(root))
        with pytest.raises(ValueError, match="which is no run"):
            serve(root.task_id, "12")  # type: ignore[arg-type]
        assert stored() == before

    def test_may_be_anything_else_that_gives_runs_once_or_often(self, ann: User) -> None:
        one, two = begin("one", owner=ann), begin("two", owner=ann)
        child = begin("child", serves=(run for run in (one, two, one)))  # type: ignore[arg-type]
        assert ServingLink.objects.filter(child=child.task_id).count() == 2
        begin(one.task_id, keep=(pk for pk in (child.task_id,)))  # type: ignore[arg-type]
        assert ServingLink.objects.filter(child=child.task_id).count() == 3
        spawned = begin("spawned", serves=[two, two], key="k")
        assert begin("spawned", serves=iter([two]), key="k").task_id == spawned.task_id  # type: ignore[arg-type]

    @pytest.mark.parametrize("number", [0, -1, 2**63, 10**30])
    def test_a_task_that_no_id_could_name_is_not_there(self, ann: User, number: int) -> None:
        root = begin("root", owner=ann)
        before = stored()
        with pytest.raises(TaskNotFound, match="There is no task"):
            begin("child", serves=[root, Run(number, 1)])
        assert stored() == before


class TestKeep:
    """R31: the next run adopts children of the last one, however that has ended, unless they are stopped."""

    @pytest.mark.parametrize(
        "end", [Run.finish, Run.fail, lambda run: stop(run.task_id)], ids=["finish", "fail", "stop"]
    )
    def test_of_a_run_that_is_over_adopts_who_is_at_work(self, ann: User, end: Callable[[Run], object]) -> None:
        root, other = begin("root", owner=ann), begin("other", owner=ann)
        kept, left = (begin(title, serves=[root, other]) for title in ("kept", "left"))
        end(root)
        begin(root.task_id, by=ann, keep=[kept.task_id])
        other.finish()
        assert stop(root.task_id).descendants == 2  # both hang on it still; the one works for the live run
        links = ServingLink.objects.filter(parent=root.task_id, parent_run=2)
        assert list(links.values_list("child", flat=True)) == [kept.task_id]
        assert task_of(left).state == "stopped"

    def test_of_a_task_that_has_no_run_yet_says_so(self, ann: User) -> None:
        task, child = create("queued", owner=ann), begin("child", owner=ann)
        with pytest.raises(ValueError, match="has none yet"):
            begin(task, keep=[child.task_id])
        assert not RunRow.objects.filter(task=task).exists()

    @pytest.mark.parametrize(
        ("alone", "what"), [(True, "a person begins it again"), (False, r"begin it again: begin\(task, serves")]
    )
    def test_of_a_stopped_child_says_how_it_is_begun_again(self, ann: User, alone: bool, what: str) -> None:
        root = begin("root", owner=ann)
        child = begin("child", serves=[root])
        stop(child.task_id if alone else root.task_id)
        before = stored()
        with pytest.raises(ValueError, match=f"task {child.task_id}, which was stopped. Leave it out; {what}"):
            begin(root.task_id, by=ann, keep=[child.task_id])
        assert stored() == before

    def test_of_a_child_that_has_finished_keeps_its_key(self, ann: User) -> None:
        root = begin("root", owner=ann)
        child = begin("child", serves=[root], key="k")
        child.finish()
        again = begin(root.task_id, keep=[child.task_id])
        assert begin("child", serves=[again], key="k") == child


class TestClocks:
    @pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)])
    def test_that_jump_stop_no_stop_and_free_no_run(
        self, ann: User, jump: timedelta, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Run numbers decide, not times: what is over stays over, what is live stays live."""
        from agentstop import database

        now, live, over = database.now, begin("live", owner=ann), begin("over", owner=ann)
        child = begin("child", serves=[over])
        monkeypatch.setattr(database, "now", lambda: now() + jump)
        live.check()
        assert live.call("work", connector="tools", key="k", send=lambda op: "sent").accepted
        assert stop(over.task_id, by=ann).descendants == 1
        monkeypatch.undo()
        for run in (over, child):
            with pytest.raises(Stopped):
                run.check()
        assert begin(over.task_id, by=ann).number == 2
        pause(live.task_id, by=ann)
        assert resume(live.task_id, by=ann)
        assert stop(live.task_id, by=ann).stopped

    def test_that_were_set_back_make_no_agent_silent_or_alive_for_ever(self, ann: User) -> None:
        run = begin("live", owner=ann)
        RunRow.objects.update(seen_at=timezone.now() + timedelta(days=400))
        alive.beat([(run.task_id, run.number)])
        found = account.load(run.task_id)
        assert found is not None and not report.tell(found).agent.silent
        assert RunRow.objects.get().seen_at <= timezone.now() + timedelta(seconds=5)


class TestAtTheSameInstant:
    def test_pause_stop_begin_and_a_spawn_end_in_one_state_of_the_whole_tree(
        self, ann: User, in_thread: InThread
    ) -> None:
        """Five at one barrier: whoever is first, nobody is left active under a parent that is not."""
        for _ in range(6):
            root = begin("root", owner=ann)
            begin("child", serves=[root])
            go = threading.Barrier(5, timeout=HANG_GUARD)
            acts: list[Callable[[], object]] = [
                partial(pause, root.task_id, by=ann),
                partial(resume, root.task_id, by=ann),
                partial(stop, root.task_id, by=ann),
                partial(begin, root.task_id, by=ann),
                partial(begin, "late", serves=[root], key="late"),
            ]

            def at_once(act: Callable[[], object], go: threading.Barrier = go) -> None:
                go.wait()
                try:
                    act()
                except (Paused, Stopped):
                    return

            for each in [in_thread(at_once, act) for act in acts]:
                each.result(HANG_GUARD)
            task = task_of(root)
            for link in ServingLink.objects.filter(parent=task, child__state="active").select_related("child"):
                assert (task.state, task.live_run) == ("active", link.parent_run)
        assert list(differences()) == []
