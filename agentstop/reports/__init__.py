"""What is told of a task and of what belongs to it: the same for page, websocket, admin and API."""
