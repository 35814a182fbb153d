"""What it looks like without a kernel: text, SVG, standalone HTML, DOT, charts."""
