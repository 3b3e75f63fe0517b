"""Soft thresholding, the proximal operator of the L1 norm."""

from unmissed._jit import kernel


@kernel()
def shrink(value, threshold):
    """Return sign(value) * max(0, |value| - threshold)."""
    return value - min(max(value, -threshold), threshold)
