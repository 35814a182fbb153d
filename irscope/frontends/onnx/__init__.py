"""How does an ONNX model get in? `frontend` is the entry that the registry of frontends asks."""
