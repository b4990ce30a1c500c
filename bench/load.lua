-- load.lua -- what wrk sends: increments or reads of random keys, or one range sum.
--
-- wrk -s load.lua URL -- MODE KEYS DEPTH TOKEN
-- MODE is increment, get or sum; DEPTH requests go out together (HTTP pipelining). Everything is
-- formatted before the first request, so that the client costs as little as it can.

local HOUR = "durationSeconds=3600&timestamp=2026-01-01T00:00:00Z"
local YEAR = "durationSeconds=60&startTime=2025-01-01T00:00:00Z&endTime=2025-12-31T23:59:00Z"
local BODY = '{"durationSeconds":3600,"timestamp":"2026-01-01T00:00:00Z"}'

local function format(mode, keys)
  local counter = "/api/counters/bench/k" .. math.random(0, keys - 1)
  if mode == "increment" then
    return wrk.format("POST", counter .. "/increment", nil, BODY)
  elseif mode == "get" then
    return wrk.format("GET", counter .. "/get?" .. HOUR)
  else
    return wrk.format("GET", "/api/counters/bench/year/sumRange?" .. YEAR)
  end
end

local requests, at = {}, 0

function init(args)
  local mode, keys, depth = args[1], tonumber(args[2]), tonumber(args[3])
  math.randomseed(os.time() + tonumber(tostring(wrk.thread):match("0x(%x+)"), 16) % 100000)
  wrk.headers["Authorization"] = "Bearer " .. args[4]
  wrk.headers["Content-Type"] = mode == "increment" and "application/json" or nil
  for i = 1, mode == "sum" and 1 or math.ceil(keys / depth) * 2 do
    local group = {}
    for j = 1, depth do group[j] = format(mode, keys) end
    requests[i] = table.concat(group)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

function done(summary, latency, times)
  local errors = summary.errors
  print(string.format('{"ops":%d,"seconds":%.6f,"failed":%d,"p50Ms":%.3f,"p99Ms":%.3f}',
    summary.requests, summary.duration / 1e6,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
