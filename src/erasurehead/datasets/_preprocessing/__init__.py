"""From the columns of a file to a design matrix: encodings that are fitted once and saved with the model."""

from erasurehead.datasets._preprocessing import (  # so that files of both kinds can be read, whoever reads the first
    array_encoding as array_encoding,
    table_encoding as table_encoding,
)
