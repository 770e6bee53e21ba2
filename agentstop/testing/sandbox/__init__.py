"""A provider to play with and to test against: a process of its own, on a real socket, with its own ledger."""
