"""What is said over HTTP when something is refused: what is wrong, and what whoever asked can do."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext_noop as _


@dataclass(frozen=True, slots=True)
class ProblemWords:
    """The HTTP status of a problem, its title, and what to do."""

    status: int
    title: str
    todo: str


PROBLEMS = {
    "malformed": ProblemWords(
        400, _("The body is not readable"), _("Send one JSON object, with plain numbers, nested at most 50 deep.")
    ),
    "unauthenticated": ProblemWords(
        401, _("Not logged in"), _("Send the header Authorization: Bearer with a valid token, or log in.")
    ),
    "csrf": ProblemWords(
        403, _("The CSRF token is missing or wrong"), _("Send the value of the CSRF cookie in the header X-CSRFToken.")
    ),
    "no_scope": ProblemWords(
        403, _("This token may not do that"), _("Use a token with that scope, or have one made in the admin.")
    ),
    "not_for_people": ProblemWords(
        403, _("Only an application may do that"), _("Use a service token: this address is for agents.")
    ),
    "not_for_applications": ProblemWords(
        403, _("Only a person may do that"), _("Log in: a token is no person, and cannot decide in their place.")
    ),
    "connector_not_allowed": ProblemWords(
        403, _("This token may not use that connector"), _("Use a token that names the connector.")
    ),
    "not_signed": ProblemWords(
        403, _("This is not signed by the provider"), _("Send it as the provider has signed it, and soon after.")
    ),
    "denied": ProblemWords(403, _("You may not do that"), _("Ask the owner of the task or an operator.")),
    "not_found": ProblemWords(404, _("There is no such thing for you"), _("Check the address, or ask its owner.")),
    "not_ours": ProblemWords(
        404, _("This is about nothing that is known here"), _("Deliver it again later: it may not be known yet.")
    ),
    "no_such_method": ProblemWords(
        405, _("This address does not take that method"), _("Use one of those that the header Allow names.")
    ),
    "stopped": ProblemWords(
        409, _("The task was stopped"), _("Send nothing more, and end. A person may begin a new run.")
    ),
    "superseded": ProblemWords(
        409, _("A newer run has begun"), _("Send nothing more, and end: the newer run goes on.")
    ),
    "finished": ProblemWords(409, _("The run has ended"), _("Begin a new run to send more.")),
    "paused": ProblemWords(409, _("The task is paused"), _("Wait until it was resumed, and ask again.")),
    "frozen": ProblemWords(409, _("An operator holds this"), _("Ask again when it is lifted, or has ended.")),
    "outcome_unknown": ProblemWords(
        409,
        _("An earlier attempt may have had its effect"),
        _("Do not send. Look the operation up, then ask again; or ask a person to settle it."),
    ),
    "in_flight": ProblemWords(
        409,
        _("This operation is under way already"),
        _("Do not send. Read the operation until its outcome is known, then ask again."),
    ),
    "key_reused": ProblemWords(
        409, _("This key names something else"), _("Use another key for another effect or question.")
    ),
    "declined": ProblemWords(409, _("A person has declined it"), _("Do not send it. Ask something else, or end.")),
    "expired": ProblemWords(409, _("Nobody has answered in time"), _("Ask again with another key, or end.")),
    "child_stopped": ProblemWords(
        409, _("The child was stopped by itself"), _("Go on without it. A person may begin a new run of it.")
    ),
    "closes_a_ring": ProblemWords(
        409, _("A task would work for itself"), _("Begin a new task for it, or link it the other way round.")
    ),
    "cannot_compensate": ProblemWords(
        409, _("There is nothing known to undo"), _("Look the operation up first, or undo it at the provider by hand.")
    ),
    "not_settled": ProblemWords(
        409, _("Evidence decides this"), _("Read the operation: nothing is left for a person to settle.")
    ),
    "sent_again": ProblemWords(
        409, _("It was sent again since you looked"), _("Read the operation again before you settle it.")
    ),
    "not_open": ProblemWords(
        409,
        _("The question takes no answer any more"),
        _("Read it again to see what became of it."),
    ),
    "not_started": ProblemWords(
        409, _("No agent was started"), _("Ask whoever runs this site how agents are started.")
    ),
    "refused": ProblemWords(409, _("Nothing was sent"), _("Ask again in a moment.")),
    "too_large": ProblemWords(
        413, _("The body is too large"), _("Send less: of a large result, send a reference instead.")
    ),
    "not_json": ProblemWords(415, _("The body is not JSON"), _("Send it with Content-Type: application/json.")),
    "invalid": ProblemWords(
        422, _("Something in the request is not usable"), _("Correct what is named, and send it again.")
    ),
    "too_many": ProblemWords(
        429, _("Too many wrong tokens"), _("Wait a minute, and send the right token: that is let in at any time.")
    ),
    "bad_pass": ProblemWords(
        422, _("This is no pass of this operation"), _("Send the pass that the gate has answered for it, unchanged.")
    ),
}
