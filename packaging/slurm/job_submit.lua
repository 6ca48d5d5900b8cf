--[[
job_submit.lua: reserves the capacity of a job's #DW directives in Slurm's pool, so that a job waits while the pool
lacks the capacity. Slurm refuses a directive with `capacity=` and without `pool=`, so this script adds the pool. With
WARREN_FEATURE in /etc/warren/slurm, a job that makes storage asks for that feature, which burst_buffer.lua takes from nodes
whose rabbit gives no storage. The script prints for the user which #DW lines are not read.

A site with a job_submit.lua of its own calls this script from its own:

    local warren = dofile("/usr/share/warren/slurm/job_submit.lua")
    function slurm_job_submit(job_desc, part_list, submit_uid)
        warren.claim(job_desc)
        ...
    end
--]]

local POOL = "rabbit" -- WARREN_POOL of burst_buffer.lua

-- Returns the feature that jobs that make storage ask for; nil if the site uses none. Slurm reads this script once.
local function configured_feature()
    local file = io.open(os.getenv("WARREN_SLURM_FILE") or "/etc/warren/slurm")
    if not file then return nil end
    local feature
    for line in file:lines() do feature = line:match("^WARREN_FEATURE=(%S+)%s*$") or feature end
    file:close()
    return feature
end

local FEATURE = configured_feature()

-- Returns true if the directive's capacity is per node; a Lustre file system has one capacity for all nodes.
local function is_per_node(line)
    return not line:find("type=lustre", 1, true)
end

-- Adds the pool to a directive (with its continuation lines), and a line that reserves the capacity of the other nodes.
-- A #DW line with a capacity and nothing else gets no pool, so that Slurm refuses it: no directive would use the
-- reservation.
local function with_reservation(line, nodes)
    local number, unit = line:match("capacity=(%d+)(%a*)")
    if not number or line:find("pool=", 1, true) or line:match("^#DW%s+capacity=%S*%s*$") then return line end
    local claim = ""
    if nodes > 1 and is_per_node(line) then
        claim = string.format("\n#DW pool=%s capacity=%.0f%s", POOL, number * (nodes - 1), unit)
    end
    return line .. " pool=" .. POOL .. claim
end

local COMMANDS = {jobdw = true, create_persistent = true, destroy_persistent = true, persistentdw = true, copy_in = true,
    copy_out = true, container = true}

-- Returns true if the author of a line may have meant a directive; `warren workload check` has the same rule.
local function looks_like_directive(line)
    local command = line:match("^%s*#+%s*[Dd][Ww]%s+([%w_]+)")
    return COMMANDS[command or ""] or (line .. " "):match("^#DW%s") ~= nil
end

-- Prints for the user which lines look like directives and were not read.
local function report_unread(unread, taken)
    if #unread == 0 then return end
    slurm.log_user("%s", string.format("warren: %d #DW directive(s) taken, %d line(s) not read:", taken, #unread))
    for index = 1, math.min(#unread, 4) do slurm.log_user("%s", unread[index]) end
    slurm.log_user("%s", "warren: #DW stands at the beginning of a line, before the first command of the script")
end

-- Rewrites the comments at the beginning of a script, directive by directive.
local function rewritten(text, nodes)
    local lines, directive, has_capacity = {}, nil, false
    local in_comments, last = true, nil
    local number, taken, unread, makes_storage = 0, 0, {}, false
    for line, ending in text:gmatch("([^\n]*)(\n?)") do
        if line == "" and ending == "" then break end
        number = number + 1
        in_comments = in_comments and (line == "" or line:sub(1, 1) == "#")
        if in_comments and (line:match("^#DW%s") or line == "#DW") then
            directive = directive and directive .. "\n" .. line or line
            if line:sub(-1) ~= "\\" then
                makes_storage = makes_storage or directive:match("^#DW%s+jobdw%s") or directive:match("^#DW%s+create_persistent%s")
                has_capacity = has_capacity or directive:find("capacity=", 1, true) ~= nil
                line, directive = with_reservation(directive, nodes), nil
                table.insert(lines, line)
                last, taken = #lines, taken + 1
            end
        else
            if looks_like_directive(line) then
                table.insert(unread, "line " .. number .. ": " .. line:gsub("%c", " "):sub(1, 160))
            end
            if directive then table.insert(lines, directive) end
            directive = nil
            table.insert(lines, line)
        end
    end
    if directive then table.insert(lines, directive) end
    report_unread(unread, taken)
    -- When a job is ready, Slurm schedules at once only if the job has a reservation: reserve one byte for a job
    -- without a capacity.
    if last and not has_capacity then
        lines[last] = lines[last] .. "\n#DW pool=" .. POOL .. " capacity=1"
    end
    return table.concat(lines, "\n") .. (text:sub(-1) == "\n" and "\n" or ""), makes_storage
end

-- Adds the feature to those that the job asks for. An expression with alternatives or counts stays as it is.
local function ask_for_feature(job_desc)
    local asked = job_desc.features
    if not asked or asked == "" then
        job_desc.features = FEATURE
    elseif asked:find("[|%[%*]") then
        slurm.log_user("%s", "warren: add &" .. FEATURE .. " to --constraint, so that the job gets no node without storage")
    elseif not ("&" .. asked:gsub(",", "&") .. "&"):find("&" .. FEATURE .. "&", 1, true) then
        job_desc.features = asked .. "&" .. FEATURE
    end
end

local function claim(job_desc)
    local nodes = tonumber(job_desc.min_nodes) or 1
    -- Slurm's NO_VAL: the user gave no number.
    if nodes < 1 or nodes >= 0xfffffffe then nodes = 1 end
    local in_script, in_option = false, false
    if job_desc.script then
        local script
        script, in_script = rewritten(job_desc.script, nodes)
        if script ~= job_desc.script then job_desc.script = script end
    end
    if job_desc.burst_buffer then
        job_desc.burst_buffer, in_option = rewritten(job_desc.burst_buffer, nodes)
    end
    if FEATURE and (in_script or in_option) then ask_for_feature(job_desc) end
end

function slurm_job_submit(job_desc)
    claim(job_desc)
    return slurm.SUCCESS
end

function slurm_job_modify()
    return slurm.SUCCESS
end

return {claim = claim}
