"""Training of heads that guess: features (what yamata features wrote), target (embedding and output of the model), blocks and one module per
kind of head, trainer (the loop), output (what is left in the folder)."""
