"""The gate and the whole gated call, beside a one-row INSERT by pgbench, the same by Django, and a step of DBOS."""
