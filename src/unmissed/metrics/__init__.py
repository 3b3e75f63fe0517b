"""P, nDCG, PSP, PSnDCG and what goes with them, with their uncertainty."""
