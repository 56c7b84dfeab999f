"""The embedded engine: LMDB, one host, any number of processes on one folder.

    settings     what can be set                     gate         one writer at a time, fair, the holder known by pid
    locks        kernel record locks on one file     watchdog     ends a process that stopped while it held the gate
    locality     same host, pid namespace, disk      committer    many sessions' commits, one fsync
    environment  the opened files                    work         what a commit does inside the write transaction
    failures     LMDB's errors as ours               snapshot     readers that cannot be forgotten
    process      is it the same process, is it       spans        count and split without reading everything
                 stopped, end it                     wake         waiting on channels across processes
    caretaker    the one background loop             presence     proof of life by lock

The folder holds `data.mdb` and `lock.mdb` (LMDB's), `locks` (ours, see locks), `notes`, `environment.json`,
`wake/` (one socket a waiting process) and `presence/` (one file a name).
"""
