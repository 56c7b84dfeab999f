"""The store on PostgreSQL: one table of keys and values, for any number of hosts.

settings      the URL: parameters of libpq and of the store, no password
connection    libpq's calls, several in a round trip; pools of connections
server        choice of the serving host, its durability, and the schema there (server.sql)
snapshot      a REPEATABLE READ transaction
habits        keys that are read together, so that they need one round trip
committer     a packet as one call of commit_packet; the outcome after a lost connection
advisory      row locks as advisory locks
wake          LISTEN, and polling without it; presences
store         the engine as a Store
"""
