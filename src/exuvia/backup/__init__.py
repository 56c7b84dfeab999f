"""Row backups: one moment of a store as Parquet files, and the restore into a new store of either
engine (decision 076). A file copy of an embedded store is kv/lmdb/backup.py.
"""
