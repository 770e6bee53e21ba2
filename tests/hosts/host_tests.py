"""A host's own tests, run by its own `manage.py test`."""

from __future__ import annotations

from django.test import TestCase, TransactionTestCase

from agentstop import sending, wake
from agentstop.exceptions import GateInTransaction
from agentstop.models import Task
from agentstop.runs import begin
from agentstop.stop import stop
from tests.hosts.people.models import Conversation
from tests.hosts.views import ann


class PageTests(TestCase):
    """In the transaction of a `TestCase`: tasks, stop and pages."""

    def test_a_task_about_a_conversation_is_shown_and_stopped(self) -> None:
        owner = ann()
        about = Conversation.objects.create(topic="Q3")
        tasks = [begin("Report", owner=owner, subject=about).task_id for _ in range(2)]
        self.client.force_login(owner)
        self.assertContains(self.client.get(f"/page/none/{about.pk}/"), f'id="agentstop-task-{tasks[0]}"')
        pressed = {"run": "1", "next": "/here/"}
        answer = self.client.post(f"/agentstop/tasks/{tasks[0]}/stop/", pressed)
        self.assertRedirects(answer, "/here/", fetch_redirect_response=False)
        stop(about, by=owner)
        self.assertEqual({task.state for task in Task.objects.of(about)}, {"stopped"})

    def test_what_would_be_sent_unseen_is_refused(self) -> None:
        run = begin("Report", owner=ann())
        with self.assertRaises(GateInTransaction):
            run.call("note.post", {}, connector="tools", key="k", send=lambda op: "done")


class SendingTests(TransactionTestCase):
    """What sends."""

    def test_a_call_passes_the_gate_until_the_stop(self) -> None:
        run = begin("Report", owner=ann())
        said = [run.call("note.post", {}, connector="tools", key="a", send=lambda op: "done").outcome]
        stop(run.task_id, by=ann())
        said.append(run.call("note.post", {}, connector="tools", key="b", send=lambda op: "done").outcome)
        self.assertEqual([str(each) for each in said], ["accepted", "ignored"])
        sending.close()
        wake.close()
