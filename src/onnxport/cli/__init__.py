"""The command line: `onnxport` and `python -m onnxport`.

In: words. Out: results on standard output, all else on standard error, and an exit code (`ending`). Imports the public
API and `report`; torch only where a command cannot do without.
"""
