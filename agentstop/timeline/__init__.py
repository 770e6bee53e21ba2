"""The timeline of a task: what happened, as a story, a layout and a picture."""
