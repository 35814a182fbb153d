"""What should a person see? View models, layout and tables as plain data, drawn by `display` and `widgets`."""
