"""How fast the files run: `python -m benchmarks.latency`."""
