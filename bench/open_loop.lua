-- sysbench's oltp_read_write at a fixed rate (open loop): every thread has an appointed time for each
-- transaction and starts the next one late if the last one took too long; what a transaction took
-- counts from when it was due. A closed loop would hide stalls: a slow answer delays the next question.
--
-- A line of LOG.THREAD is "due latency_ms"; both clocks are CLOCK_MONOTONIC, as Python's
-- time.monotonic(). A retried or refused transaction adds a line "E code" and keeps its due time.

require("oltp_read_write")
local ffi = require("ffi")

ffi.cdef[[
typedef struct { long tv_sec; long tv_nsec; } bench_time;
int clock_gettime(int clock, bench_time *now);
int nanosleep(const bench_time *wanted, bench_time *left);
]]

sysbench.cmdline.options.due_rate = {"Transactions a second, all threads", 100}
sysbench.cmdline.options.log = {"Where each thread writes, its number is added", "/tmp/open_loop"}

local transaction, begin_thread = event, thread_init
local broken = sysbench.hooks.before_restart_event
local clock, log, first, due
local count = 0

local function now()
   ffi.C.clock_gettime(1, clock)
   return tonumber(clock.tv_sec) + tonumber(clock.tv_nsec) / 1e9
end

local function sleep_until(at)
   local left = at - now()
   if left > 0 then
      clock.tv_sec = math.floor(left)
      clock.tv_nsec = math.floor((left - math.floor(left)) * 1e9)
      ffi.C.nanosleep(clock, nil)
   end
end

function thread_init()
   begin_thread()
   clock = ffi.new("bench_time")
   log = io.open(sysbench.opt.log .. "." .. sysbench.tid, "w")
   log:setvbuf("line")
end

function event()
   local gap = sysbench.opt.threads / sysbench.opt.due_rate
   if first == nil then
      first = now() + gap * sysbench.tid / sysbench.opt.threads
   end
   if due == nil then
      due = first + count * gap
      count = count + 1
      sleep_until(due)
   end
   transaction()
   log:write(string.format("%.6f %.3f\n", due, (now() - due) * 1000))
   due = nil
end

function sysbench.hooks.before_restart_event(wrong)
   log:write(string.format("E %s %s\n", tostring(wrong.sql_errno), tostring(wrong.sql_state)))
   if broken then
      broken(wrong)
   end
   pcall(function() con:query("ROLLBACK") end)
end
