"""What does the file say: types, elements, locations in the user's source, and what ONNX itself infers?"""
