"""Decoders of transformers folders: one file for the prompt and each next token, the cache as inputs and outputs.

In: a folder with `config.json` and safetensors files. Out: a `Program`, and the configuration that onnxruntime-genai
reads. Imports the public call in `api`, and `program`, `report`, `save`, `verification`.
"""
