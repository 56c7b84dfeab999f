"""The store on PostgreSQL: one table of keys and values, for any number of hosts.

settings      the URL: what is libpq's, what is ours, and no password
connection    libpq's calls, several in a round trip; pools of them
server        which host serves, what it promises, and the schema there (server.sql)
snapshot      a REPEATABLE READ transaction
committer     a packet as one call of commit_packet; what became of one that was cut off
wake          LISTEN, and polling where it fails; presences
store         the parts put together
"""
