"""Gated transports for clients of httpx and httpx2: each write passes the gate below every retry of the client's."""
