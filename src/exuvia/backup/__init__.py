"""A backup of rows: one moment of a store as Parquet files, and a new store of either engine made
of them (decision 076). A copy of an embedded store's file is kv/lmdb/backup.py.
"""
