"""What do results look like without a kernel? Text, SVG, standalone HTML, DOT, charts."""
