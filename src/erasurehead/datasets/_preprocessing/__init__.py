"""From the columns of a file to a design matrix: encodings that are fitted once and saved with the model."""
