"""The embedded engine: LMDB, one host, any number of processes on one folder.

    settings     what can be set
    native       LMDB's own types, as used here
    failures     LMDB's errors as ours
    locality     the same host, pid namespace and disk for all processes
    locks        the kernel's record locks on one file
    gate         one writer at a time, in turn, the holder known by pid
    environment  the opened files, and the one way to a write transaction
    pages        what the file's pages are for, and what old readers keep
    compact      the file made small again, as a copy or in its place
    work         what a commit does inside the write transaction
    committer    many sessions' commits, one fsync
    snapshot     readers that cannot be forgotten
    spans        count and split without reading everything
    wake         waiting on channels, across processes
    presence     proof of life, by lock
    process      is it still the same process; its end
    watchdog     ends a process that stopped while it kept the gate
    overdue      ends a process that stopped while others' reads depend on it
    caretaker    the one background loop
    store        all of it together

The folder holds `data.mdb` and `lock.mdb` (LMDB's), `locks` (ours, see locks), `notes`,
`environment.json`, `swap` (see compact), `readers.json` (for people), `wake/` (one socket a waiting
process) and `presence/` (one file a name)."""
