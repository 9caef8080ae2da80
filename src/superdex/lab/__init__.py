"""Robot learning on top of `superdex.physics`."""
