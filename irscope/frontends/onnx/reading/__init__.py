"""What does the file say: types, elements, places in the user's source, and what ONNX itself infers?"""
