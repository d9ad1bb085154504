"""Help for testing code that uses planctl."""
