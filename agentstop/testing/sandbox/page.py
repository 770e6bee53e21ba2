"""The ledger as a page for people: no script, no inline style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from agentstop.testing.sandbox.ledger import Effect

CSP = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
NOTHING = dict.fromkeys(("submits", "reads", "cancels", "writes"), 0)

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sandbox ledger</title>
<link rel="stylesheet" href="/ledger.css">
</head>
<body>
<header>
<h1>What really happened</h1>
<p>The ledger of the sandbox provider: every effect that it accepted, told by itself.
Nothing here comes from agentstop. Times are UTC.</p>
<form method="get">
<label for="task">Task</label>
<input id="task" name="task" value="{label}">
<button>Show</button>
<a href="/">Show all</a>
</form>
</header>
<main>
{table}
</main>
</body>
</html>
"""
TABLE = """<table>
<caption>{caption}</caption>
<thead><tr>
<th scope="col">Effect</th><th scope="col">What</th><th scope="col">State</th><th scope="col">Accepted</th>
<th scope="col">Ended</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Look-ups</th>
<th scope="col" class="number">Cancels</th>
</tr></thead>
<tbody>
{rows}
</tbody>
</table>"""
ROW = """<tr>
<th scope="row"><a href="{ref}">{kind} {id}</a>{undoes}</th>
<td>{text}<small>{label}</small><small><code>{key}</code></small></td>
<td><span class="state {state}">{state}</span>{undone}</td>
<td>{accepted}</td>
<td>{ended}</td>
<td class="number">{submits}</td><td class="number">{reads}</td><td class="number">{cancels}</td>
</tr>"""


def page(effects: Iterable[Effect], counts: Mapping[str, Mapping[str, int]], *, label: str) -> bytes:
    """The whole page, newest effect first."""
    rows = [_row(effect, counts.get(effect.key, NOTHING)) for effect in effects]
    done = f"{len(rows)} effect{'' if len(rows) == 1 else 's'}" + (f" of the task {label}" if label else "")
    table = TABLE.format(caption=escape(done), rows="\n".join(reversed(rows)))
    empty = "<p>No effect was accepted.</p>"
    return PAGE.format(label=escape(label), table=table if rows else empty).encode("utf-8", "replace")


def _row(effect: Effect, counts: Mapping[str, int]) -> str:
    told = {name: escape(str(value)) for name, value in {**effect.as_json(), **counts}.items()}
    ended = effect.cancelled_at or effect.done_at
    told |= {"state": escape(effect.state), "accepted": _time(effect.accepted_at)}
    first = escape(effect.undoes)
    told["undoes"] = f'<small>takes back <a href="{first}">{first}</a></small>' if first else ""
    told["undone"] = f'<span class="undone">undone {_time(effect.undone_at)}</span>' if effect.undone_at else ""
    return ROW.format_map({**told, "ended": _time(ended) if ended else "not yet"})


def _time(iso: str) -> str:
    """To the millisecond: races are told apart by it."""
    return f'<time datetime="{escape(iso)}">{escape(iso[11:23])}<small>{escape(iso[:10])}</small></time>'
