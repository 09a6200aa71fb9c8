"""Reading files: CSV, Parquet, svmlight, and arrays of NumPy and scipy."""
