"""What symbolic functions call: readers of their arguments, operators in the form of every opset, our translations.

The files named ``symbolic_*`` are public: they are imported as ``onnxport.symbolic_helper`` and so on
(`onnxport.public_names`). Imports `graph`, `lower`, `symbolic.objects`.
"""
