"""The bytes of rows and keys: one at a time (row_codec, key_codec), and many at once (.._batch)."""
