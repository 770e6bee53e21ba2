"""Small projects that embed agentstop, each with something of its own that it has to get along with."""
