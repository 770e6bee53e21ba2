"""What facts say: states as pure functions of the facts about an operation, a task, an input or a question."""
