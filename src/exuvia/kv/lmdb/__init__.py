"""The embedded engine: LMDB, one host, any number of processes on one folder.

    native        LMDB's own types, as used here, and its errors as Exuvia's
    process       place and identity of the store, of processes and of presences
    gate          the kernel's record locks, and the queue of writers
    environment   settings, the opened files, and the only way to a write transaction
    pages         usage of the file's pages, and the pages that old readers retain
    leaves        reading whole pages of the file
    compact       making the file small again, as a copy or in its place
    committer     many sessions' commits in one transaction
    snapshot      snapshots with a maximum age
    wake          waiting on channels, across processes
    shared_locks  the lock table in shared memory
    caretaker     the background loop: ends old snapshots, and processes that block others
    backup        copies of a store, and stores from copies
    store         the engine as a Store

Files of the folder:

    data.mdb, lock.mdb   LMDB's
    locks, notes         see gate
    environment.json     see process
    swap                 see compact
    readers.json         the state of readers, for people
    wake/                one socket for each waiting process
    presence/            one file for each name
"""
