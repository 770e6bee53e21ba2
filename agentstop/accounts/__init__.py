"""What is stored about a task, read in a number of queries that does not grow with it."""
