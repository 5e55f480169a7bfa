"""The commands, one per module: each reads its options and returns an `Answer`."""
