--[[
burst_buffer.lua: storage for the #DW directives of Slurm's jobs. It lies beside slurm.conf; docs/use/slurm.md installs it.

Each function calls the verbs of `warren workload` below; a call waits for the coordinator and does not poll. Two files
lie beside each job's script: `warren.env`, with the job's variables, and `warren.failed`, which exists if pre_run failed.

  job_process   check, capacity   in slurmctld: at most 2 s each
  pools         capacity   in slurmctld: at most 5 s; keeps the nodes' feature current; then list, and the calls that Slurm does not make: post-run, teardown, scancel
  setup         create     checks the directives, and sets the paths; the nodes are not known yet
  data_in                  does nothing: storage is made once the job has nodes
  real_size                does nothing: job_submit.lua has reserved the capacity
  paths                    in slurmctld: passes on the variables that setup wrote
  pre_run       setup, start --only-asked    makes storage and asks for mounts; each node's prolog waits for its own
  post_run      post-run --only-nodes        unmounts; then the nodes are free
  data_out      post-run
  teardown      teardown
  get_status    status

No text of a user reaches a shell: a job is a number, its script is a file that warren reads itself, and the nodes come
from Slurm.
--]]

local AT_ONCE = 2 -- seconds; slurmctld holds locks meanwhile
local POOLS = 5 -- seconds
local DONE, REFUSED, BAD, CANCELLED = 0, 1, 2, 6 -- exit statuses of warren

-- Reads the administrator's file of lines NAME=VALUE.
local function read_settings()
    local settings = {
        WARREN_COORDINATOR = "unix:///run/warren/workloads.sock",
        WARREN_POOL = "rabbit",
        WARREN_STORAGE_DEADLINE = "30m",
        WARREN_END_DEADLINE = "23h",
        WARREN_ON_FAILURE = "requeue",
        WARREN_FEATURE = "",
    }
    local file = io.open(os.getenv("WARREN_SLURM_FILE") or "/etc/warren/slurm")
    if file then
        for line in file:lines() do
            local name, value = line:match("^(WARREN_[%u_]+)=(.*)$")
            if name then settings[name] = value end
        end
        file:close()
    end
    return settings
end

local settings = read_settings()

local function quoted(text)
    return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- Returns the text if it is a number; fails otherwise.
local function number(text)
    text = tostring(text)
    if not text:match("^%d+$") then error("not a number: " .. text) end
    return text
end

-- Runs a command line, and returns its exit status and its output. The shell prints the status, because Lua 5.1 does
-- not return the status of a pipe.
local function run(line)
    local pipe = assert(io.popen(line .. "; echo \"$?\""))
    local text = pipe:read("*a")
    pipe:close()
    local output, code = text:match("^(.-)%s*(%d+)%s*$")
    return tonumber(code) or REFUSED, output or ""
end

local function warren(words, more)
    local line = (more or "") .. "warren " .. words .. " 2>&1"
    return run("WARREN_MANAGER=slurm WARREN_COORDINATOR=" .. quoted(settings.WARREN_COORDINATOR) .. " " .. line)
end

-- Calls a verb of `warren workload` for a job, with this time-out; `more` comes before the program's name.
local function call(verb, id, words, deadline, more)
    return warren("workload " .. verb .. " " .. id .. " " .. words .. " --timeout " .. quoted(deadline), more)
end

-- Returns the error as one line for a user, without the lines that follow it: their remedies are commands that users
-- may not run.
local function why(output)
    local message = output:match(".*error: ([^\n]*)") or output
    return (message:gsub("%s+", " "))
end

local function result(code, output)
    if code == DONE then return slurm.SUCCESS end
    slurm.log_info("warren: %s", output)
    return slurm.ERROR, why(output)
end

-- Returns the path of a file beside a job's script; nil if Slurm replaced symbols in the script, which then lies
-- elsewhere.
local function beside(script, name)
    local directory = script:match("^(.*/job%.%d+)/script$")
    return directory and directory .. "/" .. name
end

local function read(path)
    local file = path and io.open(path)
    if not file then return nil end
    local text = file:read("*a")
    file:close()
    return text
end

local function write(path, text)
    local file = path and io.open(path, "w")
    if not file then return false end
    file:write(text)
    return file:close()
end

local function variables(id)
    return run("WARREN_MANAGER=slurm WARREN_COORDINATOR=" .. quoted(settings.WARREN_COORDINATOR) ..
        " timeout " .. AT_ONCE .. " warren workload env " .. id .. " --ahead 2>/dev/null")
end

local UNITS = {[""] = 1, KB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12, KiB = 2^10, MiB = 2^20, GiB = 2^30, TiB = 2^40}

-- Returns the bytes that the directives of a script request from the pool, as job_submit.lua wrote them.
local function requested_bytes(script)
    local bytes = 0
    for line in ((read(script) or ""):gsub("\\\n", " ")):gmatch("[^\n]+") do
        local number, unit = line:match("capacity=(%d+)(%a*)")
        if number and line:match("^#DW%s") and line:find("pool=" .. settings.WARREN_POOL, 1, true) then
            bytes = bytes + number * (UNITS[unit] or 0)
        end
    end
    return bytes
end

-- Returns why a job can never have its capacity, or nil. Slurm itself would let the job wait for ever.
local function too_large(script)
    local code, output = warren("--json workload capacity", "timeout " .. AT_ONCE .. " ")
    local total, bytes = tonumber(output:match('"total":%s*(%d+)')), requested_bytes(script)
    if code ~= DONE or not total or bytes <= total then return nil end
    return string.format("the job asks for %.0f bytes on all of its nodes together, and all rabbits have %.0f: ask for less, or for " ..
        "fewer nodes", bytes, total)
end

function slurm_bb_job_process(script)
    local code, output = warren("workload check --script " .. quoted(script), "timeout " .. AT_ONCE .. " ")
    if code == DONE then
        local why_not = too_large(script)
        if why_not then return slurm.ERROR, why_not end
        return slurm.SUCCESS
    end
    if code == REFUSED or code == BAD then return slurm.ERROR, (output:gsub("^error: check: ", "")) end
    -- The coordinator does not answer: the job waits, and setup checks again.
    slurm.log_info("warren: directives of %s are not checked yet: %s", script, why(output))
    return slurm.SUCCESS
end

-- Returns Slurm's jobs by number: state, state of the burst buffer, and the administrator's comment. Nil if squeue
-- fails.
local function shown_jobs()
    local code, text = run("timeout " .. AT_ONCE ..
        " squeue --noheader --states=all --Format=JobID:12,State:16,BurstBufferState:16,admin_comment:64 2>/dev/null")
    if code ~= DONE then return nil end
    local jobs = {}
    for line in text:gmatch("[^\n]+") do
        local id, state = line:sub(1, 12):match("%d+"), line:sub(13, 28):match("[%u_]+")
        if id then jobs[id] = {state = state, buffer = line:sub(29, 44):match("%S*"), comment = line:sub(45)} end
    end
    return jobs
end

-- Returns the numbers of the jobs whose burst buffers Slurm knows. Nil if scontrol fails.
local function known_buffers()
    local code, text = run("timeout " .. AT_ONCE .. " scontrol show burst 2>/dev/null")
    if code ~= DONE or not text:find("Name=lua ", 1, true) then return nil end
    local buffers = {}
    for id in text:gmatch("JobID=(%d+)%s") do buffers[id] = true end
    -- Tasks of arrays have another form.
    for id in text:gmatch("JobID=%d+_%d+%((%d+)%)") do buffers[id] = true end
    return buffers
end

-- States of jobs that have ended: their scripts do not run, and will not.
local ENDED = {BOOT_FAIL = true, CANCELLED = true, COMPLETED = true, DEADLINE = true, FAILED = true, NODE_FAIL = true,
    OUT_OF_MEMORY = true, PREEMPTED = true, STAGE_OUT = true, TIMEOUT = true}

local FORGOTTEN = "warren: Slurm forgot this job's storage"
local TO_CANCEL = "warren: to be cancelled, since its storage failed"

local function comment(id, text)
    return run("timeout " .. AT_ONCE .. " scontrol update JobId=" .. id .. " AdminComment=" .. quoted(text) .. " 2>&1")
end

local function report_forgotten(id, job)
    if job.comment:sub(1, #FORGOTTEN) == FORGOTTEN then return end
    slurm.log_info("warren: Slurm forgot the storage of job %s, which would wait for ever", id)
    comment(id, FORGOTTEN ..
        ", so the job would wait for ever: scancel it, then scontrol requeue it or submit it again")
end

-- Replaces the comment before the job is cancelled: after an administrator requeues the job it must not be cancelled
-- again.
local function cancel_failed(id, job)
    if job.comment:sub(1, #TO_CANCEL) ~= TO_CANCEL then return end
    if comment(id, "warren: cancelled, since its storage failed: see SystemComment") == DONE then
        run("timeout " .. AT_ONCE .. " scancel " .. id .. " 2>&1")
    end
end

-- Makes the calls and cancellations that Slurm does not make.
--
-- A slurmctld that was killed makes no more calls for a burst buffer that it had not saved yet. Slurm creates a buffer
-- before it calls setup, and removes it after teardown. If storage has no buffer, and its job has ended or does not
-- exist, Slurm has forgotten the storage, and this function removes it. A job in state staging-in without a buffer
-- waits for ever; only scancel would help, and the user has to decide that: this function says so in the job's comment.
-- This function cancels a job whose storage failed, if the site wants that.
--
-- When Slurm cancels a job, it kills the job's calls. Slurm may also kill the teardown that it has just begun, and does
-- not call the teardown again: this function does. The cancelled job cannot be requeued meanwhile, so the teardown
-- cannot remove storage of a new run.
local function make_missing_calls()
    local wait_until = os.time() + POOLS
    local code, listed = warren("--json workload list", "timeout " .. AT_ONCE .. " ")
    -- The order matters: the storage in this list existed before Slurm's jobs and buffers are listed.
    local jobs = code == DONE and shown_jobs()
    local buffers = jobs and known_buffers()
    if not buffers then return end
    local function call_again(verb, id)
        local words = os.time() < wait_until and "" or "--no-wait"
        return call(verb, id, words, settings.WARREN_END_DEADLINE, "timeout " .. AT_ONCE .. " ")
    end
    for id in listed:gmatch('"(%d+)"') do
        local job = jobs[id]
        if not buffers[id] and (not job or ENDED[job.state]) then
            slurm.log_info(
                "warren: Slurm forgot the storage of job %s, which has ended: Warren removes this storage", id)
            local unmounted = call_again("post-run", id)
            if unmounted == DONE or unmounted == REFUSED or unmounted == CANCELLED then call_again("teardown", id) end
        elseif buffers[id] and job and job.state == "CANCELLED" and job.buffer == "teardown" then
            call_again("teardown", id)
        end
    end
    for id, job in pairs(jobs) do
        if job.state == "PENDING" then
            if job.buffer == "staging-in" and not buffers[id] then report_forgotten(id, job) end
            if job.buffer:sub(1, 8) ~= "teardown" then cancel_failed(id, job) end
        end
    end
end

-- Adds the feature to a comma-separated list, or removes it.
local function with_feature(list, is_wanted)
    local kept = {}
    for name in list:gmatch("[^,]+") do
        if name ~= settings.WARREN_FEATURE and name ~= "(null)" then table.insert(kept, name) end
    end
    if is_wanted then table.insert(kept, settings.WARREN_FEATURE) end
    return table.concat(kept, ",")
end

-- Makes the feature inactive on the nodes of the host list `avoid`, and active on all other nodes of which slurm.conf says
-- that they have it. Jobs that make storage ask for the feature, so they do not get nodes whose rabbit gives none. Other
-- jobs do, also those that use or destroy persistent storage there.
local function follow_rabbits(avoid)
    local none, shown = {}, ""
    if avoid ~= "" then
        local code
        code, shown = run("timeout " .. AT_ONCE .. " scontrol show hostnames " .. quoted(avoid) .. " 2>/dev/null")
        if code ~= DONE then return end
    end
    for node in shown:gmatch("%S+") do none[node] = true end
    local code, nodes = run("timeout " .. AT_ONCE .. " sinfo --noheader -N --format='%N %f %b' 2>/dev/null")
    if code ~= DONE then return end
    local changes, seen = {}, {}
    for node, available, active in nodes:gmatch("(%S+) (%S+) (%S+)") do
        local is_wanted = not none[node]
        local function has(list) return ("," .. list .. ","):find("," .. settings.WARREN_FEATURE .. ",", 1, true) ~= nil end
        if not seen[node] and has(available) and has(active) ~= is_wanted then
            local list = with_feature(active, is_wanted)
            changes[list] = (changes[list] and changes[list] .. "," or "") .. node
        end
        seen[node] = true
    end
    for list, names in pairs(changes) do
        slurm.log_info("warren: the active features of %s become %s", names, list == "" and "none" or list)
        run("timeout " .. AT_ONCE .. " scontrol update NodeName=" .. quoted(names) .. " ActiveFeatures=" .. quoted(list) .. " 2>&1")
    end
end

-- While the coordinator does not answer, the pool is empty and jobs wait. An error here would keep slurmctld from
-- recovering.
function slurm_bb_pools()
    local code, output = warren("--json workload capacity", "timeout " .. POOLS .. " ")
    local total, free = output:match('"total":%s*(%d+)'), output:match('"free":%s*(%d+)')
    if code ~= DONE or not total or not free then
        slurm.log_info("warren: the coordinator reports no capacity, so the pool is empty: %s", why(output))
        total, free = "0", "0"
    else
        local avoid = output:match('"avoid":%s*"([^"]*)"')
        if avoid and settings.WARREN_FEATURE ~= "" then follow_rabbits(avoid) end
        make_missing_calls()
    end
    return slurm.SUCCESS, string.format('{"pools":[{"id":"%s","quantity":%s,"free":%s,"granularity":1}]}',
        settings.WARREN_POOL, total, free)
end

function slurm_bb_setup(job_id, uid, gid, _, _, script)
    local id = number(job_id)
    local words = string.format("--script %s --user %s --group %s", quoted(script), number(uid), number(gid))
    local function create() return call("create", id, words, settings.WARREN_STORAGE_DEADLINE) end
    local code, output = create()
    -- A job in setup has no storage yet: existing storage is of an earlier run, which slurmctld has forgotten.
    if code == REFUSED or code == CANCELLED or code == DONE and not output:find("Proposal is ready", 1, true) then
        code, output = call("teardown", id, "--hurry", settings.WARREN_STORAGE_DEADLINE)
        if code == DONE then code, output = create() end
    end
    if code ~= DONE then return result(code, output) end
    local found, text = variables(id)
    if found == DONE then write(beside(script, "warren.env"), text .. "\n") end
    return slurm.SUCCESS
end

function slurm_bb_data_in()
    return slurm.SUCCESS
end

function slurm_bb_real_size()
    return slurm.SUCCESS
end

-- This function reports no error, because Slurm would then leave the job between two states for ever. Later pre_run
-- fails if the variables do not exist.
function slurm_bb_paths(job_id, script, path_file)
    local text = read(beside(script, "warren.env"))
    if not text then
        local code, lines = variables(number(job_id))
        text = code == DONE and lines .. "\n"
    end
    if text then write(path_file, text) end
    return slurm.SUCCESS
end

local function start(id, script)
    local written = read(beside(script, "path"))
    if not written or written == "" then return REFUSED, "the variables of job " .. id .. " are not known" end
    -- For the number of an array, squeue prints all tasks; one of the tasks has the array's number as its own.
    local _, jobs = run("squeue --noheader --jobs=" .. id .. " --format='%A %N' 2>&1")
    local nodes = ("\n" .. jobs .. "\n"):match("\n" .. id .. " ([%w%.,_%[%]%-]+)%s*\n")
    if not nodes then return REFUSED, "Slurm does not say which nodes job " .. id .. " has: " .. jobs end
    local code, output = call("setup", id, "--nodes " .. quoted(nodes), settings.WARREN_STORAGE_DEADLINE)
    if code ~= DONE then return code, output end
    return call("start", id, "--only-asked", settings.WARREN_STORAGE_DEADLINE)
end

function slurm_bb_pre_run(job_id, script)
    local id = number(job_id)
    local code, output = start(id, script)
    if code ~= DONE then write(beside(script, "warren.failed"), "") end
    return result(code, output)
end

-- For a job that did not start, or is being torn down, post-run fails with REFUSED or CANCELLED. Such a job has no data
-- to copy out: teardown does the rest.
local function post_run(job_id, words)
    local code, output = call("post-run", number(job_id), words, settings.WARREN_END_DEADLINE)
    if code == REFUSED or code == CANCELLED then
        slurm.log_info("warren: %s", why(output))
        return slurm.SUCCESS
    end
    return result(code, output)
end

function slurm_bb_post_run(job_id)
    return post_run(job_id, "--only-nodes")
end

function slurm_bb_data_out(job_id)
    return post_run(job_id, "")
end

-- Slurm sets SystemComment of a job whose storage could not be made, and requeues the job, which starts two minutes
-- later at the earliest. A scancel here would kill this teardown too, so slurm_bb_pools cancels the job afterwards.
local function after_failure(id)
    if settings.WARREN_ON_FAILURE == "hold" then run("scontrol hold " .. id .. " 2>&1") end
    if settings.WARREN_ON_FAILURE == "cancel" then comment(id, TO_CANCEL) end
end

function slurm_bb_job_teardown(job_id, script, hurry)
    local id = number(job_id)
    -- At a second scancel, Slurm kills this function's process group and does not repeat the teardown. setsid starts
    -- the call in another process group, so that it continues.
    local words = hurry == "true" and "--hurry" or ""
    local code, output = call("teardown", id, words, settings.WARREN_END_DEADLINE, "setsid --wait ")
    if code ~= DONE then return result(code, output) end
    local env, failed = beside(script, "warren.env"), beside(script, "warren.failed")
    if env then os.remove(env) end
    if failed and os.remove(failed) then after_failure(id) end
    return slurm.SUCCESS
end

-- Answers `scontrol show bbstat workflow JOB`; a user may give any text as arguments.
function slurm_bb_get_status(what, job)
    job = job or ""
    if what ~= "workflow" or not (job:match("^%d+$") or job:match("^%d+_%d+$")) then
        return slurm.SUCCESS, "usage: scontrol show bbstat workflow JOB\n"
    end
    if job:find("_", 1, true) then
        local _, id = run("squeue --noheader --jobs=" .. job .. " --format=%A 2>/dev/null")
        if not id:match("^%d+$") then return slurm.SUCCESS, "Slurm knows no job " .. job .. "\n" end
        job = id
    end
    local _, output = warren("workload status " .. job, "timeout " .. POOLS .. " ")
    return slurm.SUCCESS, output .. "\n"
end
