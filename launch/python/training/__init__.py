"""Training of draft heads: features (the files of yamata features), target (embedding and output of the model), blocks and one module per
kind of head, trainer (the loop), folder (the output)."""
