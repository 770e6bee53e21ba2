"""A site of several processes on several machines, whose follow-up work Celery does."""
