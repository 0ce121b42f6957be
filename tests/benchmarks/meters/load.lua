-- What wrk sends: the request of BENCH_REQUEST, a file with a line per header, an empty line and the body.
-- What it says at the end: one line of JSON.

local file = assert(io.open(os.getenv("BENCH_REQUEST"), "rb"))
for line in file:lines() do
  if line == "" then break end
  local name, value = line:match("^([^:]+): (.*)$")
  wrk.headers[name] = value
end
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'JSON {"requests": %d, "microseconds": %d, "p50": %f, "p99": %f, "errors": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
