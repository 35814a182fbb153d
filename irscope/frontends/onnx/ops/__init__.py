"""What does each ONNX op mean here? One file a family of ops, each a table of builders; `table` finds them."""
