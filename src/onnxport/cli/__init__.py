"""The command line: `onnxport` and `python -m onnxport`.

In: arguments. Out: results on standard output, all else on standard error, an exit code (`ending`). Imports the public
API and `report`; torch only where a command cannot do without.
"""
