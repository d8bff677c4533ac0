"""What `codecs.py` measures, a module for each question, on gradients that `gradients.py` reads."""
