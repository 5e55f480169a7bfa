"""The form that runtimes look for in quantized models: QuantizeLinear, integers, DequantizeLinear.

In: an onnx_ir model. Out: the same model, changed in place. Imports onnx_ir alone.
"""
