"""Where agents, their clients and their queues meet the gate."""
