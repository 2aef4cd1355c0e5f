"""The papers' equations once more, slowly: loops over samples and clusters in NumPy."""
