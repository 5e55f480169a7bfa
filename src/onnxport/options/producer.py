"""What files say that made them."""

producer_name = "onnxport"
producer_version = "0.1.0"
