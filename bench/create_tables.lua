-- CREATE TABLE by many clients, each one after another: sysbench ... create_tables.lua --events=N run
-- A line of LOG.THREAD is "end latency_ms", by CLOCK_MONOTONIC.

if sysbench.cmdline.command == nil then
   error("Command is required: run")
end

local ffi = require("ffi")

ffi.cdef[[
typedef struct { long tv_sec; long tv_nsec; } bench_time;
int clock_gettime(int clock, bench_time *now);
]]

sysbench.cmdline.options = {
   log = {"Where each thread writes, its number is added", "/tmp/create_tables"},
   prefix = {"What the tables' names begin with", "t"},
}

local con, log, clock
local count = 0

local function now()
   ffi.C.clock_gettime(1, clock)
   return tonumber(clock.tv_sec) + tonumber(clock.tv_nsec) / 1e9
end

function thread_init()
   con = sysbench.sql.driver():connect()
   clock = ffi.new("bench_time")
   log = io.open(sysbench.opt.log .. "." .. sysbench.tid, "w")
end

function event()
   local started = now()
   count = count + 1
   con:query(string.format("CREATE TABLE %s_%d_%d (id INT PRIMARY KEY, a INT)",
                           sysbench.opt.prefix, sysbench.tid, count))
   local ended = now()
   log:write(string.format("%.6f %.3f\n", ended, (ended - started) * 1000))
end

function thread_done()
   log:close()
   con:disconnect()
end
