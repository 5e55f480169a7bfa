"""`python -m onnxport`: the command line."""

from onnxport.cli.main import run

if __name__ == "__main__":
    run()
