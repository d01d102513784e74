"""Arguments to stages to rendering."""
