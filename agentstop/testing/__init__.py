"""What ships for tests: of this package, and of projects that embed it."""
