"""From fusion groups to kernels: what a group computes, as one description without sizes and as text for each target."""
