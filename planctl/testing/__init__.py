"""Help for testing code that uses planctl: `planctl.testing.contract` is what every store has to keep."""
