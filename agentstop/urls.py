"""Addresses of the package; include them once: `path("agentstop/", include("agentstop.urls"))`.

| name | | |
|---|---|---|
| `agentstop:tasks` | GET `tasks/` | the list: `show` (a filter), `q` (in titles), `before`, `after` (ids: pages) |
| `agentstop:stop_all` | GET, POST `tasks/stop/` | counts first (`mine`, or `show` and `q`); `tasks`, `reason`, `next` |
| `agentstop:task` | GET `tasks/<id>/` | the page of a task; extends `agentstop/base.html`, which a site overrides |
| `agentstop:panel` | GET `tasks/<id>/panel/` | the panel's body alone |
| `agentstop:button` | GET `tasks/<id>/button/` | a Stop button alone, as it is now |
| `agentstop:rows` | GET `tasks/rows/` | rows of lists as they are now: `tasks`, ids with commas between them |
| `agentstop:stop` | POST `tasks/<id>/stop/` | `run` (the number that the page saw), `reason`, `next` |
| `agentstop:pause`, `agentstop:resume` | POST `tasks/<id>/pause/`, `tasks/<id>/resume/` | `next` |
| `agentstop:new_run` | POST `tasks/<id>/new-run/` | `run` (the number that the page saw), `next` |
| `agentstop:family` | GET `tasks/<id>/family/` | its children and all that was stopped with it, in pages |
| `agentstop:operations` | GET `tasks/<id>/operations/` | all in pages: `show` (how they read), `before` (an id) |
| `agentstop:look_up` | POST `tasks/<id>/look-up/` | `operation`, `next` |
| `agentstop:answer` | POST `tasks/<id>/answer/` | see `question_views.reply`; `answer-<id>`, `reason-<id>`, `next` |
| `agentstop:timeline` | GET `tasks/<id>/timeline/` | what happened, as a picture and as a table |
| `agentstop:timeline_file` | GET `tasks/<id>/timeline.svg` | the picture as a file that stands alone |
| `agentstop:add_input` | POST `tasks/<id>/input/` | `text`, for the agent; `next` |
| `agentstop:release_input` | POST `tasks/<id>/input/release/` | `input`, `next` |
| `agentstop:withdraw_input` | POST `tasks/<id>/input/withdraw/` | `input`, `next` |
| `agentstop:operation` | GET `operations/<id>/` | what was sent and heard: attempts, receipts, results; `page` |
| `agentstop:undo` | GET, POST `operations/<id>/undo/` | names the consequences first; `reason`, `next` |
| `agentstop:settle` | GET, POST `operations/<id>/settle/` | asks what became of it; `outcome`, `reason`, `next` |
| `agentstop:healthz` | GET `healthz` | 200 where the database answers, else 503; see `docs/operating.md` |

On a page of one's own: `{% load agentstop %}{% agentstop_panel task %}` (with `heading=1` where the page is about this
task alone), `{% agentstop_stop_button task %}`, `{% agentstop_list %}` for all tasks with filters and search,
`{% agentstop_tasks tasks %}` for some, or `{% agentstop_timeline task %}` for the picture. That needs `request` among
the context processors, and `{% include "agentstop/head.html" %}` in the head. One list stands on a
page, and one panel and one Stop button of a task. Answers to presses that the state does not show go to
`django.contrib.messages` where it is installed. `docs/embedding.md` tells the rest.
"""

from __future__ import annotations

from django.urls import path

from agentstop.views import (
    family_views,
    health_views,
    input_views,
    list_views,
    operation_list_views,
    operation_views,
    question_views,
    task_views,
    timeline_views,
)

app_name = "agentstop"

urlpatterns = [
    path("tasks/", list_views.tasks, name="tasks"),
    path("tasks/stop/", list_views.stop_all, name="stop_all"),
    path("tasks/rows/", list_views.rows, name="rows"),
    path("tasks/<int:task>/", task_views.task, name="task"),
    path("tasks/<int:task>/panel/", task_views.fragment, name="panel"),
    path("tasks/<int:task>/button/", task_views.button_alone, name="button"),
    path("tasks/<int:task>/stop/", task_views.press_stop, name="stop"),
    path("tasks/<int:task>/pause/", family_views.press_pause, name="pause"),
    path("tasks/<int:task>/resume/", family_views.press_resume, name="resume"),
    path("tasks/<int:task>/new-run/", family_views.new_run, name="new_run"),
    path("tasks/<int:task>/family/", family_views.family, name="family"),
    path("tasks/<int:task>/operations/", operation_list_views.operations, name="operations"),
    path("tasks/<int:task>/look-up/", task_views.look_up, name="look_up"),
    path("tasks/<int:task>/answer/", question_views.reply, name="answer"),
    path("tasks/<int:task>/timeline/", timeline_views.timeline, name="timeline"),
    path("tasks/<int:task>/timeline.svg", timeline_views.timeline_file, name="timeline_file"),
    path("tasks/<int:task>/input/", input_views.add, name="add_input"),
    path("tasks/<int:task>/input/release/", input_views.release, name="release_input"),
    path("tasks/<int:task>/input/withdraw/", input_views.withdraw, name="withdraw_input"),
    path("healthz", health_views.healthz, name="healthz"),
    path("operations/<int:operation>/", operation_views.operation, name="operation"),
    path("operations/<int:operation>/undo/", task_views.undo, name="undo"),
    path("operations/<int:operation>/settle/", task_views.settle, name="settle"),
]
