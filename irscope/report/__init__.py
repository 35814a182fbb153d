"""What a person should see, as plain data: view models, layout and tables. `display` and `widgets` draw them."""
