"""What a gated HTTP call costs beside a bare one, and what is left in memory after many that were cancelled."""
