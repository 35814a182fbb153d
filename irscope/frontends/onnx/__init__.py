"""How is an ONNX model read? The registry of frontends enters through `source`."""
