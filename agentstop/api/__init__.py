"""The HTTP API for agents and front ends in any language. Mounted by `path("api/", include("agentstop.api.urls"))`."""
