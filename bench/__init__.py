"""What agentstop costs, measured beside peers in one run: read the ratios, the milliseconds are this machine's."""
