"""The comparisons of `codecs.py`, a module for each, on gradients that `gradients.py` reads."""
