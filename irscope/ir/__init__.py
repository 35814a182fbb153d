"""What a program is: values, nodes, blocks and graphs, their text, their rules, and how to edit them."""
