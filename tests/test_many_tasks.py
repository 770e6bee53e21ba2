"""Stop, pause and resume by the host's own object (R44), and everything of a person's: an answer for each task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import OperationalError

from agentstop import stop as stop_module
from agentstop.bulk import astop_all, count_before, stop_all
from agentstop.exceptions import Denied, TaskNotFound
from agentstop.lifecycle import create
from agentstop.models import Decision, Operation, Task
from agentstop.pause import apause, aresume, pause, resume
from agentstop.per_task import Answers, Counted, tasks_of
from agentstop.runs import Run, begin
from agentstop.stop import StopReport, astop, stop
from agentstop.verify import differences
from tests.observed import task_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tools")]


@pytest.fixture
def room(transactional_db: None) -> Group:
    """An object of the host's."""
    return Group.objects.create(name="room")


def state(run: Run) -> str:
    return str(task_of(run).state)


def viewer(user: User) -> User:
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    return User.objects.get(pk=user.pk)


class TestByAnObjectOfTheHosts:
    def test_its_tasks_are_found(self, ann: User, ben: User, room: Group) -> None:
        one, two = begin("one", owner=ann, subject=room), begin("two", owner=ben, subject=room)
        begin("of another room", owner=ann, subject=Group.objects.create(name="other"))
        begin("about ann", owner=ann, subject=ann)
        begin("about nothing", owner=ann)
        assert list(tasks_of(room)) == list(Task.objects.of(room).order_by("pk")) == [task_of(one), task_of(two)]
        assert Task.objects.filter(owner=ben).of(room).get() == task_of(two)

    def test_two_kinds_of_objects_with_the_same_id_are_two(self, ann: User) -> None:
        group = Group.objects.create(pk=ann.pk, name="the same id")
        begin("about ann", owner=ann, subject=ann)
        assert not tasks_of(group).exists()

    def test_all_of_them_are_stopped_and_each_answers(self, ann: User, room: Group) -> None:
        active, paused = begin("active", owner=ann, subject=room), begin("paused", owner=ann, subject=room)
        queued, finished = create("queued", owner=ann, subject=room), begin("finished", owner=ann, subject=room)
        other = begin("other", owner=ann)
        with active.dispatch("work", connector="tools", key="k") as op:
            op.accepted("7")
        pause(paused.task_id, by=ann)
        finished.finish()
        done = stop(room, by=ann, reason="closed")
        assert done.before == Counted(running=3, finished=1, open_operations=1)
        assert {answer.task: answer.report.why for answer in done.answers if answer.report} == {
            active.task_id: "", paused.task_id: "", queued.pk: "", finished.task_id: "finished",
        }  # fmt: skip
        assert done.answers[-1].task == finished.task_id  # what works comes first
        assert done.failed == ()
        assert done.answers[0].report is not None and done.answers[0].report.open == (op.id,)
        assert {task.stop_reason for task in tasks_of(room).filter(state="stopped")} == {"closed"}
        other.check()
        assert list(differences()) == []

    def test_pressing_twice_is_one_stop(self, ann: User, room: Group) -> None:
        begin("one", owner=ann, subject=room)
        stop(room, by=ann)
        again = stop(room, by=ann)
        assert [answer.report.why for answer in again.answers if answer.report] == ["already_stopped"]
        assert again.before == Counted(stopped=1)

    def test_a_person_reaches_only_what_they_may_see_and_learns_of_nothing_else(
        self, ann: User, ben: User, room: Group
    ) -> None:
        anns, bens = begin("ann's", owner=ann, subject=room), begin("ben's", owner=ben, subject=room)
        done = stop(room, by=ann)
        assert ([answer.task for answer in done.answers], done.before) == ([anns.task_id], Counted(running=1))
        assert (state(anns), state(bens)) == ("stopped", "active")
        assert not Decision.objects.filter(task=bens.task_id, verb="stop").exists()

    def test_what_they_may_see_and_not_stop_is_an_answer_and_on_record(self, ann: User, ben: User, room: Group) -> None:
        anns, bens = begin("ann's", owner=ann, subject=room), begin("ben's", owner=ben, subject=room)
        done = stop(room, by=viewer(ann))
        assert done.before == Counted(running=1, denied=1)
        [failed] = done.failed
        assert (failed.task, failed.report, type(failed.error)) == (bens.task_id, None, Denied)
        assert (state(anns), state(bens)) == ("stopped", "active")
        denied = Decision.objects.get(task=bens.task_id, verb="stop")
        assert (denied.effect, denied.by) == ("denied", ann)

    @pytest.mark.parametrize("verb", [stop, pause, resume])
    def test_who_may_do_it_to_none_is_denied(
        self, ann: User, ben: User, room: Group, verb: Callable[..., Answers[Any]]
    ) -> None:
        for title in ("one", "two"):
            begin(title, owner=ann, subject=room)
        with pytest.raises(Denied):
            verb(room, by=viewer(ben))
        assert Decision.objects.filter(effect="denied", by=ben).count() == 2
        assert set(tasks_of(room).values_list("state", flat=True)) == {"active"}

    @pytest.mark.parametrize("verb", [stop, pause, resume])
    def test_nothing_found_is_an_error(
        self, ann: User, ben: User, room: Group, verb: Callable[..., Answers[Any]]
    ) -> None:
        """R6: no task, and none for this person, read the same."""
        with pytest.raises(TaskNotFound, match=rf"about group {room.pk} for you\. Nothing was \w+ed\."):
            verb(room, by=ann)
        begin("ann's", owner=ann, subject=room)
        for stranger in (ben, AnonymousUser()):
            with pytest.raises(TaskNotFound, match="about group"):
                verb(room, by=stranger)
        with pytest.raises(ValueError, match="never saved"):
            verb(Group(name="new"), by=ann)

    def test_one_failure_hides_nothing(
        self, ann: User, room: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        runs = [begin(f"{number}", owner=ann, subject=room) for number in range(3)]
        commit = stop_module._commit

        def fails(task_id: int, press: stop_module.Press) -> StopReport:
            if task_id == runs[1].task_id:
                raise OperationalError("disk full")
            return commit(task_id, press)

        monkeypatch.setattr(stop_module, "_commit", fails)
        done = stop(room, by=ann)
        assert [state(run) for run in runs] == ["stopped", "active", "stopped"]
        assert [answer.task for answer in done.failed] == [runs[1].task_id]
        assert str(done.failed[0].error) == "disk full"
        assert [getattr(each, "action", "") for each in caplog.records if each.levelname == "ERROR"] == [
            "one_of_many_failed"
        ]

    def test_pause_and_resume_answer_for_each(self, ann: User, room: Group) -> None:
        active, own = begin("active", owner=ann, subject=room), begin("paused before", owner=ann, subject=room)
        over = begin("over", owner=ann, subject=room)
        over.finish()
        pause(own.task_id, by=ann)
        paused = pause(room, by=ann)
        assert {answer.task: answer.report for answer in paused.answers} == {
            active.task_id: True, own.task_id: False, over.task_id: False,
        }  # fmt: skip
        resumed = resume(room, by=ann)
        assert [answer.report for answer in resumed.answers] == [True, True, False]
        assert [state(run) for run in (active, own, over)] == ["active", "active", "finished"]
        assert list(differences()) == []

    def test_a_run_belongs_to_one_task(self, ann: User, room: Group) -> None:
        run = begin("one", owner=ann, subject=room)
        with pytest.raises(ValueError, match="run of one task"):
            stop(room, by=ann, run=1)
        assert state(run) == "active"

    def test_children_that_are_stopped_with_their_parent_say_so(self, ann: User, room: Group) -> None:
        parent = begin("parent", owner=ann, subject=room)
        begin("child", serves=[parent], subject=room)
        done = stop(room, by=ann)
        assert [answer.report.why for answer in done.answers if answer.report] == ["", "already_stopped"]

    def test_it_can_be_awaited(self, ann: User, room: Group) -> None:
        begin("one", owner=ann, subject=room)

        async def all_three() -> list[list[Any]]:
            paused, resumed = await apause(room, by=ann), await aresume(room, by=ann)
            done: list[Answers[Any]] = [paused, resumed, await astop(room, by=ann)]
            return [[answer.report for answer in each.answers] for each in done]

        paused, resumed, [report] = asyncio.run(all_three())
        assert (paused, resumed, report.stopped) == ([True], [True], True)


class TestEverythingOfAPersons:
    def test_what_works_is_stopped_and_the_rest_is_left_alone(self, ann: User, ben: User) -> None:
        active, queued = begin("active", owner=ann), create("queued", owner=ann)
        over, left = begin("over", owner=ann), begin("over, and left something", owner=ann)
        with left.dispatch("work", connector="tools", key="k") as op:
            op.accepted("7")
        for run in (over, left):
            run.finish()
        bens = begin("ben's", owner=ben)
        asked = count_before(ann, by=ann)
        assert asked == Counted(running=2, finished=1, open_operations=1)
        done = stop_all(ann, by=ann, reason="enough")
        assert done.before == asked
        assert {answer.task for answer in done.answers} == {active.task_id, queued.pk, left.task_id}
        assert Operation.objects.get().decisions.filter(verb="cancel").exists()
        assert not Decision.objects.filter(task=over.task_id, verb="stop").exists()
        bens.check()
        assert list(differences()) == []

    def test_an_operator_does_it_for_somebody_and_is_named(self, ann: User, olga: User) -> None:
        run = begin("Report", owner=ann)
        stop_all(ann, by=olga, reason="costs too much")
        assert (task_of(run).stopped_by, task_of(run).stop_reason) == (olga, "costs too much")

    def test_nobody_does_it_to_somebody_else(self, ann: User, ben: User) -> None:
        run = begin("Report", owner=ann)
        for whose in (ann, Task.objects.all()):
            with pytest.raises(TaskNotFound):
                stop_all(whose, by=ben)
            with pytest.raises(TaskNotFound):
                count_before(whose, by=ben)
        assert not Decision.objects.filter(verb="stop").exists()
        with pytest.raises(Denied):
            stop_all(ann, by=viewer(ben))
        assert count_before(ann, by=viewer(ben)) == Counted(denied=1)
        assert state(run) == "active"

    def test_a_query_names_them_and_each_answers(self, ann: User, ben: User) -> None:
        runs = [begin(f"{number}", owner=ann) for number in range(3)]
        stop(runs[0].task_id, by=ann)
        done = stop_all(Task.objects.filter(title__in=["0", "1"]), by=ann)
        why = {answer.task: answer.report.why for answer in done.answers if answer.report}
        assert why == {runs[0].task_id: "already_stopped", runs[1].task_id: ""}
        assert [state(run) for run in runs] == ["stopped", "stopped", "active"]

    def test_a_run_that_began_after_they_were_shown_is_not_stopped(self, ann: User) -> None:
        one, two = begin("one", owner=ann), begin("two", owner=ann)
        begin(two.task_id)
        done = stop_all(ann, by=ann, seen={one.task_id: 1, two.task_id: 1})
        why = {answer.task: answer.report.why for answer in done.answers if answer.report}
        assert why == {one.task_id: "", two.task_id: "newer_run"}
        assert state(two) == "active"

    def test_where_there_is_nothing_it_says_so(self, ann: User) -> None:
        with pytest.raises(TaskNotFound, match="that is at work"):
            stop_all(ann, by=ann)
        begin("over", owner=ann).finish()
        with pytest.raises(TaskNotFound, match="Nothing was stopped"):
            stop_all(ann, by=ann)

    def test_a_thousand_finished_ones_are_no_work(self, ann: User) -> None:
        first = begin("over", owner=ann)
        first.finish()
        task = task_of(first)
        copies = [
            Task(title="over", owner=ann, family=task.family, state="finished", state_since=task.state_since,
                 created_at=task.created_at, last_run=1)
            for _ in range(1000)
        ]  # fmt: skip
        Task.objects.bulk_create(copies)
        run = begin("active", owner=ann)
        assert [answer.task for answer in stop_all(ann, by=ann).answers] == [run.task_id]
        assert Decision.objects.filter(verb="stop").count() == 1

    def test_it_can_be_awaited(self, ann: User) -> None:
        begin("one", owner=ann)
        assert len(asyncio.run(astop_all(ann, by=ann)).answers) == 1
