"""The shape of each kind of mark, as SVG path data around the origin: kinds differ in shape, never in colour alone."""

from __future__ import annotations

from agentstop.story import Kind

_CIRCLE = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z"
_FORWARD = "M-4-5L5 0L-4 5Z"
_DOWN = "M-5-4.5L5-4.5L0 5Z"

SHAPES = {
    Kind.BEGUN: "M3-6H-2V6H3",
    Kind.RESUMED: "M-4-5V5M-1-5L5 0L-1 5Z",
    Kind.REFUSED: f"{_CIRCLE}M-4.5 0H4.5",
    Kind.PASSED: _FORWARD,
    Kind.UNSENT: _FORWARD,
    Kind.LOST: "M-3.5-3.5A5 5 0 1 1-3.5 3.5",
    Kind.ALIVE: _CIRCLE,
    Kind.CANCEL_SENT: _DOWN,
    Kind.ACKNOWLEDGED: _DOWN,
    Kind.CANCEL_FAILED: f"{_DOWN}M-5 5L5-5",
    Kind.ABSENT: f"{_CIRCLE}M-4 5L4-5",
    Kind.BY_HAND: "M0-6L5 0L0 6L-5 0Z",
    Kind.ANSWERED: _CIRCLE,
    Kind.SETTLED: "M-6-6H6V6H-6Z",
    Kind.PAUSED: "M-2.5-5V5M2.5-5V5",
    Kind.STOPPED: "M-2.5-6H2.5L6-2.5V2.5L2.5 6H-2.5L-6 2.5V-2.5Z",
    Kind.PRESSED: "M-2.5-6H2.5L6-2.5V2.5L2.5 6H-2.5L-6 2.5V-2.5ZM-3 0H3",
    Kind.ENDED: "M-3-6H2V6H-3",
}
