"""What does each ONNX op mean as `aten::` ops? One file per family of ops, each a table of builders, which `op_table`
collects."""
