"""Service tokens: hashed at rest, shown once, scoped, ended, revoked in the admin."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from agentstop import database, tokens
from agentstop.api import guesses
from agentstop.exceptions import Denied
from agentstop.models import ServiceToken
from tests.api.conftest import Caller, Token, row

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_is_stored_is_no_token(token: Token, ann: User) -> None:
    text = token(ann)
    stored = row(text)
    secret = text.rsplit("_", 1)[0] and text.split("_", 2)[2]
    assert secret not in " ".join(map(str, ServiceToken.objects.values_list().get()))
    assert Caller(text).get("/tasks").status == 200
    assert Caller(f"agentstop_{stored.name}_{stored.fingerprint}").get("/tasks").status == 401


@pytest.mark.parametrize("wrong", ["", "x", "agentstop_", "agentstop__", "agentstop_é_é", "agentstop_x_y", "a" * 9000])
def test_any_other_text_lets_nobody_in(ann: User, wrong: str) -> None:
    told = Caller(wrong or " ").get("/tasks")
    assert (told.status, told.reason, told.headers["WWW-Authenticate"]) == (401, "unauthenticated", "Bearer")


def test_a_wrong_token_is_not_made_good_by_a_session(ann: User) -> None:
    assert Caller("agentstop_x_y", user=ann).get("/tasks").status == 401


def test_it_ends(token: Token, root: User, ann: User) -> None:
    """By its time, by being revoked, and with its user."""
    ended, revoked, left = token(ann), token(ann), token(ann)
    ServiceToken.objects.filter(pk=row(ended).pk).update(until=database.now() - timedelta(seconds=1))
    assert Caller(ended).get("/tasks").status == 401
    assert tokens.revoke(row(revoked), by=root) and not tokens.revoke(row(revoked), by=root)
    assert Caller(revoked).get("/tasks").status == 401
    assert Caller(left).get("/tasks").status == 200
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert Caller(left).get("/tasks").status == 401


def test_it_may_what_its_scopes_say_and_its_connectors(token: Token, ann: User, tools: None) -> None:
    assert Caller(token(ann, "read")).post("/tasks", title="x").reason == "no_scope"
    narrow = Caller(token(ann, "create", "run", connectors=("tools",)))
    task = narrow.post("/tasks", title="x").body["id"]
    path = f"/tasks/{task}/runs/{narrow.post(f'/tasks/{task}/runs').body['run']}/operations"
    wish = {"action": "mail.send", "key": "k"}
    assert narrow.post(path, connector="tools", **wish).status == 201
    assert narrow.post(path, connector="bank", **wish).reason == "connector_not_allowed"
    assert narrow.post(f"/tasks/{task}/stop").reason == "no_scope"


def test_nobody_lends_the_rights_of_another(ann: User, ben: User, root: User) -> None:
    """Who may make tokens makes them for themselves; for others only a superuser."""
    with pytest.raises(Denied):
        tokens.make("x", ann, ["read"], by=ann)
    ann.user_permissions.add(Permission.objects.get(codename="add_servicetoken"))
    ann = User.objects.get(pk=ann.pk)
    assert tokens.make("x", ann, ["read"], by=ann)
    for other in (ben, root):
        with pytest.raises(Denied):
            tokens.make("x", other, ["read"], by=ann)
    with pytest.raises(Denied):
        tokens.revoke(ServiceToken.objects.get(), by=ben)
    for wrong in ([], ["everything"]):
        with pytest.raises(ValueError, match="scopes"):
            tokens.make("x", ann, wrong, by=root)


def test_the_admin_makes_it_shows_it_once_and_revokes_it(root: User, ann: User, tools: None) -> None:
    client = Client()
    client.force_login(root)
    add = reverse("admin:agentstop_servicetoken_add")
    assert client.get(add).status_code == 200
    made = client.post(add, {"application": "node", "user": ann.pk, "scopes": ["read"], "connectors": ["tools"]})
    [text] = re.findall(r"<code>(agentstop_[^<]+)</code>", made.content.decode())
    assert "no-store" in made["Cache-Control"] and Caller(text).get("/tasks").status == 200
    page = reverse("admin:agentstop_servicetoken_change", args=[row(text).pk])
    for shown in (page, reverse("admin:agentstop_servicetoken_changelist")):
        told = client.get(shown).content.decode()
        assert row(text).name in told and text not in told and row(text).fingerprint not in told
    revoke = reverse("admin:agentstop_servicetoken_revoke", args=[row(text).pk])
    assert client.get(revoke).status_code == 404
    assert client.post(revoke).status_code == 302
    assert Caller(text).get("/tasks").status == 401
    stranger = Client()
    stranger.force_login(User.objects.create_user("stan", is_staff=True))
    assert {stranger.get(add).status_code, stranger.post(revoke).status_code} == {403}


def test_who_guesses_is_told_to_wait_and_the_right_token_is_let_in(
    token: Token, ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    """By address: others are not told so. It is over by itself."""
    right, wrong = Caller(token(ann)), Caller("agentstop_x_y")
    told = [wrong.get("/tasks").status for _ in range(guesses.MOST + 2)]
    assert told == [401] * guesses.MOST + [429] * 2
    assert wrong.get("/tasks").headers["Retry-After"] == "60"
    assert right.get("/tasks").status == 200
    wrong.client.defaults["REMOTE_ADDR"] = "203.0.113.7"
    assert wrong.get("/tasks").status == 401
    assert [each.action for each in caplog.records if hasattr(each, "action")].count("tokens_guessed") == 1


def test_those_who_come_by_ipv4_are_told_apart_on_a_socket_for_both_kinds() -> None:
    counted = guesses.Guesses()
    told = [counted.wrong("::ffff:192.0.2.1") > 0 for _ in range(guesses.MOST + 1)]
    assert told == [False] * guesses.MOST + [True]
    assert counted.wrong("::ffff:192.0.2.2") == 0 < counted.wrong("192.0.2.1")


def test_guesses_are_forgotten_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "ADDRESSES", 2)
    clock, counted = [0.0], guesses.Guesses()
    monkeypatch.setattr("agentstop.api.guesses.time.monotonic", lambda: clock[0])
    network = [f"2001:db8::{number}" for number in range(1, guesses.MOST + 2)]
    assert [counted.wrong(each) for each in network][-2:] == [0, 61]
    clock[0] = 59.5
    assert counted.wrong(network[0]) == 1
    clock[0] = 130.0
    assert counted.wrong(network[0]) == 0
    for address in ("192.0.2.1", "192.0.2.2", "?"):
        counted.wrong(address)
    assert len(counted._wrong) == 2
