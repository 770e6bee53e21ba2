"""Plays the races between a stop and a send with an agent of yours, and prints what is said beside what was done."""
